-- Says that an instance lives, and asks who else does.
--
-- KEYS   1 the instances: a sorted set, id by the time of its last beat
-- ARGV   named below, spans in milliseconds
-- Reply  {how many live, how many of them come before the caller by name, id of each
--         that is dead...}
-- Read by `read` in src/store/redis/keeper.rs.

local instances = KEYS[1]
local me, alive, remembered, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function whole(n)
  return string.format('%.0f', n)
end

if redis.call('TYPE', instances).ok ~= 'zset' then
  -- Whatever somebody put there is in the way.
  redis.call('DEL', instances)
end
redis.call('ZADD', instances, whole(now), me)
redis.call('ZREMRANGEBYSCORE', instances, '-inf', whole(now - remembered))
redis.call('PEXPIRE', instances, whole(remembered))
local dead = redis.call('ZREVRANGEBYSCORE', instances, '(' .. whole(now - alive), '-inf', 'LIMIT', 0, most)
local live = redis.call('ZRANGEBYSCORE', instances, whole(now - alive), '+inf')
local rank = 0
for _, id in ipairs(live) do
  rank = rank + (id < me and 1 or 0)
end
return { #live, rank, unpack(dead) }
