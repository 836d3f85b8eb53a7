// One of several processes that share a Bottleneck limiter: each request that comes in is a job,
// and the job is to ask the backend the same thing.
// node job.mjs PORT REDIS_PORT BACKEND_PORT MIN_TIME_MS MAX_CONCURRENT (0: none)
import http from "node:http";
import Bottleneck from "bottleneck";
import Redis from "ioredis";

const [port, redisPort, backendPort, minTime, maxConcurrent] = process.argv.slice(2).map(Number);
const agent = new http.Agent({ keepAlive: true });

const limiter = new Bottleneck({
  id: "bench",
  minTime,
  maxConcurrent: maxConcurrent || null,
  datastore: "ioredis",
  clearDatastore: false,
  clientOptions: { host: "127.0.0.1", port: redisPort },
  Redis,
});
limiter.on("error", (error) => console.error(error));

function ask(path) {
  return new Promise((resolve, reject) => {
    const request = http.get({ port: backendPort, host: "127.0.0.1", path, agent }, (answer) => {
      answer.resume();
      answer.on("end", () => resolve(answer.statusCode));
    });
    request.on("error", reject);
  });
}

const server = http.createServer((request, response) => {
  // As its documentation advises, so that jobs of a killed process don't count for ever.
  limiter.schedule({ expiration: 5000 }, () => ask(request.url)).then(
    (status) => response.writeHead(status, { "content-length": 0 }).end(),
    (error) => {
      console.error(error);
      response.writeHead(500, { "content-length": 0 }).end();
    },
  );
});
await limiter.ready();
server.listen(port, "127.0.0.1");
