-- One line, many instances: an instance says what is so, and gets its slots.
--
-- KEYS   1 the bucket: a hash        2 its line: a list; a request stands there with its
--        instance's id, once for each slot that it needs
-- ARGV   named below; spans and instants are whole microseconds on Redis's clock
-- Reply  {now, next, number, hold, length, tickets, place, runs, joined of each run...,
--         number and slot of each grant...}; {} where a later call has been here before.
--         `tickets` are the caller's in the line, `place` that of the first, from 0, or -1.
-- Read by `read` in src/store/redis/answer.rs; the words are those of ARCHITECTURE.md.

local bucket, line = KEYS[1], KEYS[2]
local now, me, call = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local micros, part, of = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local places, delay = tonumber(ARGV[7]), tonumber(ARGV[8])
local horizon, lead = tonumber(ARGV[9]), tonumber(ARGV[10])
local known_number, known_next, owed = tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
local held, aside, at_tail = tonumber(ARGV[14]), tonumber(ARGV[15]), ARGV[16] == '1'
local returned, left, wanted, dead = ARGV[17], ARGV[18], ARGV[19], ARGV[20]
local hold_for, channel, paused_for = tonumber(ARGV[21]), ARGV[22], tonumber(ARGV[23])

-- Slots are promised at most this far ahead, whatever horizon an instance asks for.
local FURTHEST = 250000
-- How late a slot may be used and still keep the grid.
local TOLERANCE = 2000
-- Slots that one call promises at most.
local MOST = 512
-- Who has not heard of a slot so long after it, hears nothing at present.
local SILENT = 500000

if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- An interval is micros + part / of, kept exact as a whole number of ticks, `of` to
-- the microsecond; an instant is whole microseconds and a rest in ticks.
local ticks = micros * of + part
local interval = ticks / of
local credit = math.ceil(delay * ticks / of)
local idle, idle_rest = now - credit, credit * of - delay * ticks
-- `hold` is until when nobody may go: `asked` by an upstream, or `paused` by hand.
local next, rest, number, last, hold, asked, paused
local gone = 0

-- A number, but for whatever somebody else may have written there.
local function kept_number(text)
  local n = tonumber(text)
  return n and n > -1e17 and n < 1e17 and n or nil
end

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
  end
end

local function push(command, count)
  while count > 0 do
    local some = {}
    for i = 1, math.min(count, 1000) do
      some[i] = me
    end
    redis.call(command, line, unpack(some))
    count = count - #some
  end
end

-- The list from its `first`th on, the last one first: as LPUSH puts them back.
local function unpack_back(list, first)
  local back = {}
  for i = #list, first, -1 do
    back[#back + 1] = list[i]
  end
  return unpack(back)
end

-- What the hash remembers; where a survivor remembers more, its word holds.
local function recall()
  local kept = redis.call('HMGET', bucket, 'next', 'rest', 'number', 'last', 'hold', 'call:' .. me, 'sent:' .. me,
    'own:' .. me, 'paused')
  if (kept_number(kept[6]) or 0) >= call then
    return nil
  end
  next, rest = kept_number(kept[1]) or idle, math.max(math.min(kept_number(kept[2]) or idle_rest, of - 1), 0)
  number, last = math.max(kept_number(kept[3]) or 0, 0), kept_number(kept[4]) or 0
  asked = math.max(kept_number(kept[5]) or 0, hold_for > 0 and now + hold_for or 0)
  paused = paused_for > 0 and now + paused_for or math.min(kept_number(kept[9]) or 0, now)
  hold = math.max(asked, paused)
  if not kept[1] then
    redis.call('DEL', line)
    if held > 0 then
      no_earlier(now + horizon, 0)
    end
  end
  if number < known_number then
    number = known_number
    no_earlier(known_next, 0)
  end
  no_earlier(owed, 0)
  -- Neither a clock that steps back nor a slower rate that was freezes the bucket.
  next = math.min(next, now + FURTHEST + math.ceil(interval))
  return (kept[7] or '') .. (kept[8] or '')
end

-- Promises that the caller has not heard of: those of an answer that got lost (`sent`),
-- and those that others' calls made (`own`).
local function unheard(promised)
  local grants = {}
  if known_number >= 0 then
    for its_number, slot in string.gmatch(promised, '(%d+):(%d+)') do
      if tonumber(its_number) > known_number and tonumber(slot) <= now + FURTHEST then
        grants[#grants + 1] = { its_number, slot }
      end
    end
  end
  return grants
end

-- A slot that nobody used is undone where it was the last one promised.
local function undo()
  for unused in string.gmatch(returned, '%d+') do
    if tonumber(unused) == last then
      advance(-1)
      last = last - 1
    end
  end
end

-- Instances that are no more have no tickets.
local function bury()
  if redis.call('LLEN', line) == 0 then
    return
  end
  for id in string.gmatch(dead, '[^,]+') do
    gone = gone + redis.call('LREM', line, 0, id)
    redis.call('HDEL', bucket, 'call:' .. id, 'sent:' .. id, 'own:' .. id, 'lead:' .. id)
  end
end

-- Takes out as many of the caller's tickets as it no longer needs: those named, else the last.
local function take_out(mine, surplus, heard)
  gone = gone + surplus
  for ordinal in string.gmatch(left, '%d+') do
    local at = mine[tonumber(ordinal) - heard]
    if at and surplus > 0 then
      redis.call('LSET', line, at, '')
      mine[tonumber(ordinal) - heard] = nil
      surplus = surplus - 1
    end
  end
  redis.call('LREM', line, 0, '')
  if surplus > 0 then
    redis.call('LREM', line, -surplus, me)
  end
end

-- Makes the caller's tickets as many as its requests that have a place and no slot. As a
-- rule they are: one look for the last of them and one more tells, whatever the line's length.
local function square(heard)
  local last_two = redis.call('LPOS', line, me, 'RANK', math.max(held, 1), 'COUNT', 2)
  if #last_two == math.min(held, 1) then
    return
  end
  local mine = redis.call('LPOS', line, me, 'COUNT', 0)
  if #mine > held then
    take_out(mine, #mine - held, heard)
  else
    push(at_tail and 'RPUSH' or 'LPUSH', held - #mine)
  end
end

-- Slots gone by belonged to the tickets before the caller's; its own keep the grid
-- where they are not too late.
local function pass_over(length)
  -- Those from when nobody might go were nobody's.
  no_earlier(math.min(hold, now) - credit, idle_rest)
  local late = idle - TOLERANCE
  if length > 0 and next < late then
    local before = redis.call('LPOS', line, me) or length
    local over = math.min(math.ceil((late - next) / interval), before)
    if over > 0 then
      redis.call('LPOP', line, over)
      advance(over)
      length = length - over
      gone = gone + over
    end
  end
  no_earlier(length > 0 and late or idle, idle_rest)
  return length
end

-- Newcomers join while their wait stays within the bound; each takes as many places as it
-- needs slots, or none.
local function join(length)
  local joined, tickets, ahead = {}, 0, length + aside
  local function room(from, bound)
    return math.floor(((now - from) * of - rest + bound) / ticks) + 1 - ahead
  end
  for count, most, cost in string.gmatch(wanted, '(%d+):(-?%d+):(%d+)') do
    local free_places = room(next, places * ticks)
    if tonumber(most) >= 0 then
      local free = hold - now <= tonumber(most)
      local from = math.max(next, hold - credit)
      free_places = free and math.min(free_places, room(from, tonumber(most) * of)) or 0
    end
    local few = math.max(math.min(tonumber(count), math.floor(free_places / cost)), 0)
    push('RPUSH', few * cost)
    ahead = ahead + few * cost
    tickets = tickets + few * cost
    joined[#joined + 1] = few
  end
  return joined, tickets, ahead - aside
end

-- What others' calls have promised to an instance since its last one, and how early it
-- must hear of a slot; `false` where it hears nothing at present: its tickets go, until
-- it puts them back.
local function hearing(owner)
  local kept = redis.call('HMGET', bucket, 'own:' .. owner, 'lead:' .. owner)
  local own = kept[1] or ''
  local first = tonumber(string.match(own, '^%d+:(%d+)'))
  return not (first and first < now - SILENT) and { own = own, lead = tonumber(kept[2]) or 0 }
end

-- Promises slots in line order, whoever calls, no further than the horizon. Whoever
-- can't hear of a slot in time lets those behind it go first.
local function promise(length, grants)
  local reach = now + math.min(horizon, FURTHEST)
  if length == 0 or hold > reach or next > reach then
    return length
  end
  if hold > now then
    no_earlier(hold - credit, idle_rest)
  end
  local heard_by, deferred, promised = { [me] = { lead = lead } }, {}, 0

  local function slot()
    return math.max(next, now, hold)
  end

  local function is_open()
    return next <= reach and promised < MOST
  end

  local function in_time(owner)
    return slot() >= now + heard_by[owner].lead
  end

  local function grant(owner)
    local at = math.max(slot(), now + heard_by[owner].lead)
    advance(1)
    number, last, promised = number + 1, number + 1, promised + 1
    if owner == me then
      grants[#grants + 1] = { whole(number), whole(at) }
    else
      heard_by[owner].own = heard_by[owner].own .. whole(number) .. ':' .. whole(at) .. ','
    end
  end

  local function hears(owner)
    if heard_by[owner] == nil then
      heard_by[owner] = hearing(owner)
      if not heard_by[owner] then
        local silent = redis.call('LREM', line, 0, owner)
        length, gone = length - silent, gone + silent
      end
    end
    return heard_by[owner]
  end

  local function serve_deferred()
    local i = 1
    while deferred[i] and is_open() do
      if in_time(deferred[i]) then
        grant(table.remove(deferred, i))
        i = 1
      else
        i = i + 1
      end
    end
  end

  while length > 0 and is_open() and #deferred < MOST do
    -- At least one: where `next` is the last microsecond's, it is open all the same.
    local room = math.max(math.floor(((reach - next) * of - rest) / ticks) + 1, 1)
    local owners = redis.call('LPOP', line, math.min(length, room, MOST - promised))
    for i, owner in ipairs(owners) do
      serve_deferred()
      if not is_open() then
        redis.call('LPUSH', line, unpack_back(owners, i))
        break
      end
      length = length - 1
      if not hears(owner) then
        gone = gone + 1
      elseif in_time(owner) then
        grant(owner)
      else
        deferred[#deferred + 1] = owner
      end
    end
  end
  serve_deferred()
  -- Where nobody else is left for the slots before the caller's, they are gone.
  while deferred[1] == me and length == 0 and is_open() and now + lead <= reach do
    no_earlier(now + lead - credit, idle_rest)
    grant(table.remove(deferred, 1))
    serve_deferred()
  end
  if deferred[1] then
    redis.call('LPUSH', line, unpack_back(deferred, 1))
  end
  for owner, hearer in pairs(heard_by) do
    if hearer and hearer.own then
      redis.call('HSET', bucket, 'own:' .. owner, hearer.own)
    end
  end
  return length + #deferred
end

-- Keeps both keys past the full drain: a forgotten debt is a broken rate.
local function keep(length, grants)
  local sent = {}
  for i, grant in ipairs(grants) do
    sent[i] = grant[1] .. ':' .. grant[2] .. ','
  end
  redis.call('HSET', bucket, 'next', whole(next), 'rest', whole(rest), 'number', whole(number), 'last', whole(last),
    'hold', whole(asked), 'call:' .. me, whole(call), 'sent:' .. me, table.concat(sent), 'own:' .. me, '',
    'lead:' .. me, whole(lead))
  if paused > 0 then
    redis.call('HSET', bucket, 'paused', whole(paused))
  end
  local drain = math.max(next, hold, now) - now + (length + delay + 1) * interval
  local ttl = whole(math.ceil(drain / 1000) + 1000)
  redis.call('PEXPIRE', bucket, ttl)
  redis.call('PEXPIRE', line, ttl)
end

local promised = recall()
if not promised then
  return {}
end
local grants = unheard(promised)
local heard = #grants
held = math.max(held - heard, 0)
undo()
bury()
square(heard)
local length = pass_over(redis.call('LLEN', line))
local joined, tickets
joined, tickets, length = join(length)
length = promise(length, grants)
keep(length, grants)

-- Nobody but the caller has put in or taken out any of its own since they were squared.
local mine = held + tickets - (#grants - heard)
local place = mine > 0 and redis.call('LPOS', line, me) or -1
if gone > 0 and length > mine then
  redis.call('PUBLISH', channel, string.match(bucket, '{(.*)}') .. ' ' .. gone)
end
local reply = { now, next, number, asked, length, mine, place, #joined }
for _, few in ipairs(joined) do
  reply[#reply + 1] = few
end
for _, grant in ipairs(grants) do
  reply[#reply + 1] = tonumber(grant[1])
  reply[#reply + 1] = tonumber(grant[2])
end
return reply
