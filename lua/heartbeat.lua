-- Says that an instance lives, and asks who else does.
--
-- KEYS   1 the instances: a sorted set, id by the time of its last beat
-- ARGV   named below, spans in milliseconds
-- Reply  {how many live, id of each that is dead...}
-- Read by `Roll::read` in src/store/redis/heartbeat.rs.

local instances = KEYS[1]
local me, alive, remembered, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function whole(n)
  return string.format('%.0f', n)
end

redis.call('ZADD', instances, whole(now), me)
redis.call('ZREMRANGEBYSCORE', instances, '-inf', whole(now - remembered))
redis.call('PEXPIRE', instances, whole(remembered))
local dead = redis.call('ZREVRANGEBYSCORE', instances, '(' .. whole(now - alive), '-inf', 'LIMIT', 0, most)
local live = redis.call('ZCOUNT', instances, whole(now - alive), '+inf')
return { live, unpack(dead) }
