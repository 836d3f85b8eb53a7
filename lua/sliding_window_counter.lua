-- So many in a sliding window, by the counts of the present fixed one and the one before.
--
-- KEYS   1 the windows: a hash
-- ARGV   named below; spans and instants are whole microseconds on Redis's clock
-- Reply  {now, number, start, current, previous, runs, passed of each run...}
-- Read by `read` in src/store/redis/windows.rs; the Rust twin is src/window/counter.rs.

local windows = KEYS[1]
local now, limit, span, offset = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local known_number, known_start = tonumber(ARGV[5]), tonumber(ARGV[6])
local known_current, known_previous = tonumber(ARGV[7]), tonumber(ARGV[8])
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

local kept = redis.call('HMGET', windows, 'number', 'start', 'span', 'current', 'previous')
local number, start, length = kept_number(kept[1]), kept_number(kept[2]), kept_number(kept[3])
local current, previous = kept_number(kept[4]), kept_number(kept[5])
local before = number

-- What Redis forgot, whoever calls may remember.
if number < known_number then
  number = known_number
  if start == known_start then
    current, previous = math.max(current, known_current), math.max(previous, known_previous)
  elseif start == known_start + span then
    previous = math.max(previous, known_current)
  elseif start < known_start then
    start, length, current, previous = known_start, span, known_current, known_previous
  end
end

-- As fixed_window.lua goes on. `at` is the time that counts, never before the window.
local begins, at, moved = now - (now - offset) % span, now, false
if length == span and start == begins + span then
  at = start
else
  if start + 2 * length <= now then
    current, previous = 0, 0
  elseif start + length <= now then
    current, previous = 0, current
  end
  moved = number > 0 and (start ~= begins or length ~= span)
  start, length = begins, span
end

for since, cost in string.gmatch(owed, '(%d+):(%d+)') do
  if tonumber(since) >= start then
    current, number = current + cost, number + cost
  elseif tonumber(since) >= start - span then
    previous, number = previous + cost, number + cost
  end
end

-- The product of numbers below 2^24 and 2^46 in two parts: one double is not exact.
local HALF = 2 ^ 23
local function product(a, b)
  local low = a * (b % HALF)
  return a * math.floor(b / HALF) + math.floor(low / HALF), low % HALF
end

-- previous * (span - elapsed) / span, rounded up.
local function weighed()
  local high, low = product(previous, span - (at - start))
  local function covers(count)
    local most, rest = product(count, span)
    return most > high or most == high and rest >= low
  end
  local count = math.ceil(previous * (span - (at - start)) / span)
  while not covers(count) do
    count = count + 1
  end
  while count > 0 and covers(count - 1) do
    count = count - 1
  end
  return count
end

local was_full, freed = weighed() + current >= limit, 0
for _, since, cost in string.gmatch(returned, '(%d+):(%d+):(%d+)') do
  since = tonumber(since)
  if since >= start and since < start + span then
    current, freed = math.max(current - cost, 0), freed + cost
  elseif since >= start - span and since < start then
    previous, freed = math.max(previous - cost, 0), freed + cost
  end
end

local reply = { now, 0, start, 0, 0, 0 }
local weight = weighed()
for many, cost in string.gmatch(wanted, '(%d+):(%d+)') do
  local few = math.max(math.min(tonumber(many), math.floor((limit - weight - current) / cost)), 0)
  current, number = current + few * cost, number + few * cost
  reply[6] = reply[6] + 1
  reply[#reply + 1] = few
end
reply[2], reply[4], reply[5] = number, current, previous

if number > before or freed > 0 or moved then
  local function whole(n)
    return string.format('%.0f', n)
  end
  redis.call('HSET', windows, 'number', whole(number), 'start', whole(start), 'span', whole(length),
    'current', whole(current), 'previous', whole(previous))
  redis.call('PEXPIRE', windows, whole(math.ceil((start + 2 * span - now) / 1000) + 1000))
end
if was_full and freed > 0 then
  redis.call('PUBLISH', channel, string.match(windows, '{(.*)}') .. ' ' .. freed)
end
return reply
