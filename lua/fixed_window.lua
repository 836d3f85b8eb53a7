-- So many in a window, from one multiple of its span to the next.
--
-- KEYS   1 the window: a hash
-- ARGV   named below; spans and instants are whole microseconds on Redis's clock
-- Reply  {now, number, start, count, 0, runs, passed of each run...}
-- Read by `read` in src/store/redis/windows.rs; the Rust twin is src/window/fixed.rs.

local window = KEYS[1]
local now, limit, span, offset = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local known_number, known_start, known_count = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local owed, returned, wanted, channel = ARGV[9], ARGV[10], ARGV[11], ARGV[12]

if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- A whole number, but for whatever somebody else may have written there.
local function kept_number(text)
  local n = tonumber(text)
  return n and n > 0 and n < 9e15 and math.floor(n) or 0
end

local kept = redis.call('HMGET', window, 'number', 'start', 'span', 'count')
local number, start = kept_number(kept[1]), kept_number(kept[2])
local length, count = kept_number(kept[3]), kept_number(kept[4])
local before = number

-- What Redis forgot, whoever calls may remember.
if number < known_number then
  number = known_number
  if start == known_start then
    count = math.max(count, known_count)
  elseif start < known_start then
    start, length, count = known_start, span, known_count
  end
end

-- Where the clock stepped back, a window that has begun goes on; one that lies further
-- ahead than its span, or had another, becomes the present one with what it counted.
local begins, moved = now - (now - offset) % span, false
if length ~= span or start ~= begins + span then
  if start + length <= now then
    count = 0
  end
  moved = number > 0 and (start ~= begins or length ~= span)
  start, length = begins, span
end

for at, cost in string.gmatch(owed, '(%d+):(%d+)') do
  if tonumber(at) >= start then
    count, number = count + cost, number + cost
  end
end
local was_full, freed = count >= limit, 0
for _, at, cost in string.gmatch(returned, '(%d+):(%d+):(%d+)') do
  if tonumber(at) >= start and tonumber(at) < start + span then
    count, freed = math.max(count - cost, 0), freed + cost
  end
end

local reply = { now, 0, start, 0, 0, 0 }
for many, cost in string.gmatch(wanted, '(%d+):(%d+)') do
  local few = math.max(math.min(tonumber(many), math.floor((limit - count) / cost)), 0)
  count, number = count + few * cost, number + few * cost
  reply[6] = reply[6] + 1
  reply[#reply + 1] = few
end
reply[2], reply[4] = number, count

if number > before or freed > 0 or moved then
  local function whole(n)
    return string.format('%.0f', n)
  end
  redis.call('HSET', window, 'number', whole(number), 'start', whole(start), 'span', whole(length),
    'count', whole(count))
  redis.call('PEXPIRE', window, whole(math.ceil((start + span - now) / 1000) + 1000))
end
if was_full and freed > 0 then
  redis.call('PUBLISH', channel, string.match(window, '{(.*)}') .. ' ' .. freed)
end
return reply
