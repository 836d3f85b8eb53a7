-- So many in any window of a length: each that passed is kept for that long.
--
-- KEYS   1 how it stands: a hash    2 what passed: a sorted set of numbers by time, one
--        for each that counts, as many at most as the limit
-- ARGV   named below; spans and instants are whole microseconds on Redis's clock
-- Reply  {now, number, frees, count, newest, runs, passed of each run...}: the next one
--        may pass at `frees`.
-- Read by `read` in src/store/redis/windows.rs; the Rust twin is src/window/log.rs.

local log, entries = KEYS[1], KEYS[2]
local now, limit, span = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local known_number, known_count, known_newest = tonumber(ARGV[5]), tonumber(ARGV[7]), tonumber(ARGV[8])
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

local function whole(n)
  return string.format('%.0f', n)
end

local kept = redis.call('HMGET', log, 'number', 'newest')
local number, newest = kept_number(kept[1]), kept_number(kept[2])
local before = number

-- Where the clock stepped back by more than the span, all entries go with it; else the
-- log's time stands still.
local back = newest - now
if back > span then
  local all = redis.call('ZRANGE', entries, 0, -1, 'WITHSCORES')
  for i = 1, #all, 2 do
    redis.call('ZADD', entries, whole(math.max(all[i + 1] - back, 0)), all[i])
  end
  newest = now
end
local at = math.max(now, newest)

-- In batches: a call takes only so many arguments.
local function add(score, first, last)
  for from = first, last, 1000 do
    local batch = {}
    for n = from, math.min(from + 999, last) do
      batch[#batch + 1] = whole(score)
      batch[#batch + 1] = whole(n)
    end
    redis.call('ZADD', entries, unpack(batch))
  end
end

redis.call('ZREMRANGEBYSCORE', entries, '-inf', whole(at - span))
-- What Redis forgot, whoever calls may remember: as if all had passed with the last.
if number < known_number then
  local missing = known_count - redis.call('ZCARD', entries)
  if known_newest > at - span and missing > 0 then
    newest = math.max(newest, math.min(known_newest, at))
    add(newest, known_number - missing + 1, known_number)
  end
  number = known_number
end
for since, cost in string.gmatch(owed, '(%d+):(%d+)') do
  if tonumber(since) > at - span then
    local last = math.min(tonumber(since), at)
    add(last, number + 1, number + cost)
    number, newest = number + cost, math.max(newest, last)
  end
end
-- Of more than the limit only the last ones can ever count.
redis.call('ZREMRANGEBYRANK', entries, 0, -limit - 1)
local count = redis.call('ZCARD', entries)

local was_full, freed = count >= limit, 0
for first, _, cost in string.gmatch(returned, '(%d+):(%d+):(%d+)') do
  -- What an instance let pass by itself has no number here.
  if tonumber(first) > 0 then
    for n = tonumber(first), first + cost - 1 do
      freed = freed + redis.call('ZREM', entries, whole(n))
    end
  end
end
count = count - freed

local reply = { now, 0, at, 0, 0, 0 }
for many, cost in string.gmatch(wanted, '(%d+):(%d+)') do
  local few = math.max(math.min(tonumber(many), math.floor((limit - count) / cost)), 0)
  if few > 0 then
    add(at, number + 1, number + few * cost)
    count, number, newest = count + few * cost, number + few * cost, at
  end
  reply[6] = reply[6] + 1
  reply[#reply + 1] = few
end
if count >= limit and count > 0 then
  reply[3] = redis.call('ZRANGE', entries, count - limit, count - limit, 'WITHSCORES')[2] + span
end
reply[2], reply[4], reply[5] = number, count, newest

if number > before or freed > 0 or back > span then
  redis.call('HSET', log, 'number', whole(number), 'newest', whole(newest))
  local stays = whole(math.ceil((newest + span - now) / 1000) + 1000)
  redis.call('PEXPIRE', log, stays)
  redis.call('PEXPIRE', entries, stays)
end
if was_full and freed > 0 then
  redis.call('PUBLISH', channel, string.match(log, '{(.*)}') .. ' ' .. freed)
end
return reply
