-- The plain limiter to compare with: GCRA on one key, one call a request.
--
-- KEYS   1 when the next request would be due, in microseconds
-- ARGV   1 microseconds between requests   2 how long a request may wait at most
-- Reply  how long to wait, or -1: refused
-- Called by `plain` in benches/shared/calls.rs and `Plain` in benches/decisions/store.rs.

local interval, longest = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local due = math.max(now, tonumber(redis.call('GET', KEYS[1]) or now))
if due - now > longest then
  return -1
end
local kept = math.ceil((due + interval - now) / 1000) + 1
redis.call('SET', KEYS[1], string.format('%.0f', due + interval), 'PX', kept)
return due - now
