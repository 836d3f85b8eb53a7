-- A bucket that lets requests pass or refuses them at once: no line, O(1) state.
--
-- KEYS   1 the bucket: a hash
-- ARGV   named below; spans and instants are whole microseconds on Redis's clock
-- Reply  {now, next, number, 0, 0, 0, -1, runs, passed of each run..., number and slot of
--         each grant...}: as that of leaky_bucket.lua, whose line is always empty. A grant
--         is one request's and covers all its slots; its number is that of the last.
-- Read by `read` in src/store/redis/answer.rs.

local bucket = KEYS[1]
local now = tonumber(ARGV[1])
local micros, part, of = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local delay, bound = tonumber(ARGV[5]), tonumber(ARGV[6])
local known_number, known_next, owed = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local returned, wanted = ARGV[10], ARGV[11]
-- What the caller let pass without asking, and how far ahead of now such may reach.
local spent, debt = tonumber(ARGV[12]), tonumber(ARGV[13])

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

local kept = redis.call('HMGET', bucket, 'next', 'rest', 'number', 'gaps')
local next, rest = kept_number(kept[1]) or idle, math.max(math.min(kept_number(kept[2]) or idle_rest, of - 1), 0)
local number = math.max(kept_number(kept[3]) or 0, 0)

-- What comes back takes with it only what those who passed later had not found refilled
-- anyway: the least of their gaps, a gap being how far `next` was behind a full bucket's
-- when they came. Of these, `gaps` keeps those with none as small behind them, so that
-- both numbers and gaps rise.
local gaps = {}
for its_number, gap in string.gmatch(kept[4] or '', '(%d+):(%d+)') do
  gaps[#gaps + 1] = { number = tonumber(its_number), gap = tonumber(gap) }
end
-- More of them are thinned out, to those that double.
local MOST = 32

local function whole(n)
  return string.format('%.0f', n)
end

local function advance(count)
  rest = rest + count * part
  local carry = math.floor(rest / of)
  next = next + count * micros + carry
  rest = rest - carry * of
end

-- Never more comes back for a smaller gap than there was: of two that become one, the
-- later number has the smaller.
local function thin_out()
  local few = { gaps[1] }
  for i = 2, #gaps do
    local last = few[#few]
    if last.gap > 0 and gaps[i].gap < 2 * last.gap then
      last.number = gaps[i].number
    else
      few[#few + 1] = gaps[i]
    end
  end
  gaps = few
end

local function note(at_number, gap)
  while #gaps > 0 and (gaps[#gaps].gap >= gap or gaps[#gaps].number >= at_number) do
    gap = math.min(gap, gaps[#gaps].gap)
    gaps[#gaps] = nil
  end
  gaps[#gaps + 1] = { number = at_number, gap = gap }
  if #gaps > MOST then
    thin_out()
  end
end

-- Whoever passed before this has nothing more to give back.
local function forget()
  gaps = {}
  note(number + 1, 0)
end

local function no_earlier(at, more)
  if next < at or next == at and rest < more then
    next, rest = at, more
    forget()
  end
end

local function take_back(its_number, count)
  local first = #gaps + 1
  while first > 1 and gaps[first - 1].number > its_number do
    first = first - 1
  end
  local least = gaps[first] and gaps[first].gap or math.huge
  local back = math.ceil(count * interval)
  if least >= back then
    advance(-count)
  else
    back = least
    next = next - back
  end
  local later = {}
  for i = first, #gaps do
    later[#later + 1] = { number = gaps[i].number, gap = gaps[i].gap - back }
    gaps[i] = nil
  end
  for _, one in ipairs(later) do
    note(one.number, one.gap)
  end
end

-- What a request got and did not use comes back: the bucket is as if it had not come.
local function give_back()
  for its_number, count in string.gmatch(returned, '(%d+):(%d+)') do
    if tonumber(its_number) <= number then
      take_back(tonumber(its_number), tonumber(count))
    end
  end
end

local function pass(cost)
  number = number + cost
  note(number, math.max(next - idle - (idle_rest > rest and 1 or 0), 0))
  advance(cost)
end

if number < known_number then
  number = known_number
  no_earlier(known_next, 0)
end
no_earlier(owed, 0)
local farthest = now + math.ceil(interval) + math.ceil(bound / of) + debt
if next > farthest then
  -- The clock stepped back.
  next = farthest
  forget()
end
give_back()
no_earlier(idle, idle_rest)
if spent > 0 then
  pass(spent)
end

local reply = { now, 0, 0, 0, 0, 0, -1, 0 }
local grants = {}
for count, most, cost in string.gmatch(wanted, '(%d+):(-?%d+):(%d+)') do
  cost = tonumber(cost)
  local within = tonumber(most) >= 0 and math.min(bound, tonumber(most) * of) or bound
  local room = math.floor(((now - next) * of - rest + within) / ticks) + 1
  local few = math.max(math.min(tonumber(count), math.floor(room / cost)), 0)
  for _ = 1, few do
    pass(cost)
    grants[#grants + 1] = number
  end
  reply[8] = reply[8] + 1
  reply[#reply + 1] = few
end
reply[2], reply[3] = next, number
for _, grant in ipairs(grants) do
  reply[#reply + 1] = grant
  reply[#reply + 1] = now
end

local kept_gaps = {}
for i, one in ipairs(gaps) do
  kept_gaps[i] = whole(one.number) .. ':' .. whole(one.gap)
end
redis.call('HSET', bucket, 'next', whole(next), 'rest', whole(rest), 'number', whole(number), 'gaps',
  table.concat(kept_gaps, ','))
local drain = math.max(next, now) - now + (delay + 1) * interval
redis.call('PEXPIRE', bucket, whole(math.ceil(drain / 1000) + 1000))
return reply
