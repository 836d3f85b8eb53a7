-- Keeps what is paused, for all instances and those that are yet to come.
--
-- KEYS   1 the pauses: a hash, a limit or LIMIT:KEY by `end:until when to remember it`
-- ARGV   named below; then four for each change: which, 'set' or 'keep' (where nothing is
--        known of it), how long from now it is paused, and how long that is remembered
-- Reply  {which, how long from now...} of all that is remembered, in microseconds; 0 for
--        what was paused and is no more
-- Read by `read` in src/store/redis/pauses.rs.

local pauses, channel, most = KEYS[1], ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function whole(n)
  return string.format('%.0f', n)
end

local function read(text)
  local ends, forget = string.match(text or '', '^(%d+):(%d+)$')
  return tonumber(ends), tonumber(forget)
end

if redis.call('TYPE', pauses).ok ~= 'hash' then
  -- Whatever somebody put there is in the way.
  redis.call('DEL', pauses)
end

local changed = false
for i = 3, #ARGV, 4 do
  local which, how, left, remembered = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local ends, forget = read(redis.call('HGET', pauses, which))
  local has_room = ends or redis.call('HLEN', pauses) < most
  if has_room and (how == 'set' or not ends) then
    -- Whoever knows of a pause must be able to hear that it is over.
    forget = math.max(now + math.max(left, remembered), forget or 0)
    redis.call('HSET', pauses, which, whole(now + left) .. ':' .. whole(forget))
    changed = true
  end
end

local reply, last = {}, 0
local all = redis.call('HGETALL', pauses)
for i = 1, #all, 2 do
  local ends, forget = read(all[i + 1])
  if ends and forget > now then
    reply[#reply + 1] = all[i]
    reply[#reply + 1] = math.max(ends - now, 0)
    last = math.max(last, forget)
  else
    redis.call('HDEL', pauses, all[i])
  end
end
if last > 0 then
  redis.call('PEXPIRE', pauses, whole(math.ceil((last - now) / 1000) + 1000))
end
if changed then
  redis.call('PUBLISH', channel, '!pauses')
end
return reply
