-- A bucket that lets requests pass or refuses them at once: no line, O(1) state.
--
-- KEYS   1 the bucket: a hash
-- ARGV   named below; spans and instants are whole microseconds on Redis's clock
-- Reply  {now, next, number, 0, 0, 0, -1, runs, passed of each run..., number and slot of
--         each grant...}: as that of leaky_bucket.lua, whose line is always empty.
-- Read by `read` in src/store/redis/answer.rs.

local bucket = KEYS[1]
local now = tonumber(ARGV[1])
local micros, part, of = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local delay, bound = tonumber(ARGV[5]), tonumber(ARGV[6])
local known_number, known_next, owed = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local returned, wanted = ARGV[10], ARGV[11]

if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local ticks = micros * of + part
local interval = ticks / of
local credit = math.ceil(delay * ticks / of)
local idle, idle_rest = now - credit, credit * of - delay * ticks
-- A number, but for whatever somebody else may have written there.
local function kept_number(text)
  local n = tonumber(text)
  return n and n > -1e17 and n < 1e17 and n or nil
end

-- `slack` is how far `next` may go back for a request that passed at `since` or later and
-- was not served after all, without forgetting those that were.
local kept = redis.call('HMGET', bucket, 'next', 'rest', 'number', 'last', 'since', 'slack')
local next, rest = kept_number(kept[1]) or idle, math.max(math.min(kept_number(kept[2]) or idle_rest, of - 1), 0)
local number, last = math.max(kept_number(kept[3]) or 0, 0), kept_number(kept[4]) or 0
local since, slack = kept_number(kept[5]) or 1, kept_number(kept[6]) or math.huge

local function whole(n)
  return string.format('%.0f', n)
end

local function advance(count)
  rest = rest + count * part
  local carry = math.floor(rest / of)
  next = next + count * micros + carry
  rest = rest - carry * of
end

local function no_earlier(at, more)
  if next < at or next == at and rest < more then
    next, rest = at, more
    since, slack = number + 1, math.huge
  end
end

-- What a request got and did not use comes back: in full where it was the last,
-- else as much as those who passed after it leave.
local function give_back()
  for unused in string.gmatch(returned, '%d+') do
    unused = tonumber(unused)
    if unused == last then
      advance(-1)
      last = last - 1
    elseif unused >= since and unused < last then
      local back = math.floor(math.min(slack, interval))
      next = next - back
      slack = slack - back
    end
  end
end

local function pass(few)
  for _ = 1, few do
    slack = math.min(slack, number >= since and next - idle or math.huge)
    advance(1)
    number = number + 1
    last = number
  end
end

if number < known_number then
  number = known_number
  no_earlier(known_next, 0)
end
no_earlier(owed, 0)
next = math.min(next, now + math.ceil(interval) + math.ceil(bound / of))
give_back()
no_earlier(idle, idle_rest)

local reply = { now, 0, 0, 0, 0, 0, -1, 0 }
local grants = {}
for count, most in string.gmatch(wanted, '(%d+):(-?%d+)') do
  local within = tonumber(most) >= 0 and math.min(bound, tonumber(most) * of) or bound
  local room = math.floor(((now - next) * of - rest + within) / ticks) + 1
  local few = math.max(math.min(tonumber(count), room), 0)
  for i = 1, few do
    grants[#grants + 1] = number + i
  end
  pass(few)
  reply[8] = reply[8] + 1
  reply[#reply + 1] = few
end
reply[2], reply[3] = next, number
for _, grant in ipairs(grants) do
  reply[#reply + 1] = grant
  reply[#reply + 1] = now
end

redis.call('HSET', bucket, 'next', whole(next), 'rest', whole(rest), 'number', whole(number), 'last', whole(last),
  'since', whole(since), 'slack', whole(math.min(slack, 1e15)))
local drain = math.max(next, now) - now + (delay + 1) * interval
redis.call('PEXPIRE', bucket, whole(math.ceil(drain / 1000) + 1000))
return reply
