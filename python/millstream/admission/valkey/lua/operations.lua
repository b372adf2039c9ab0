-- ARGV[1] is the operation: its name, the clock's reading or -1 for the server's own, the time to
-- live of a lease in units, the spare milliseconds that idle keys are kept, and a list of what it
-- is about: it is done for each of these, as if they came one after the other at the same time.
-- KEYS are those of the scopes, two each; ARGV[2] has their quotas where they are needed.

local operation = cmsgpack.unpack(ARGV[1])
local reading, ttl, spare = operation[2], operation[3], operation[4]
if reading < 0 then
  local time = call('TIME')
  reading = time[1] * 2000000 + time[2] * 2
end

local function keys(scope)
  return KEYS[2 * scope - 1], KEYS[2 * scope]
end

-- The state of each scope, false where there is none.
local function load_all()
  local states = {}
  for scope = 1, #KEYS / 2 do
    local key, leases = keys(scope)
    states[scope] = load(key, leases, reading, ttl) or false
  end
  return states
end

local function save_all(states)
  for scope, state in ipairs(states) do
    if state then save(keys(scope), state, reading, ttl, spare) end
  end
end

-- Milliseconds that the leases of a scope are kept after one was opened or renewed.
local function lease_life(state)
  return text(quotient_up(lasting(state, LEASE_TIME, reading, ttl), 2000) + spare)
end

-- Whether a call whose answer never came has taken this lease already.
local function is_taken(states, lease)
  for scope = 1, #states do
    local _, leases = keys(scope)
    if not call('ZSCORE', leases, lease) then return false end
  end
  return true
end

local function take(states, lease, requests, tokens, kibibytes)
  local charges = {}
  for scope, state in ipairs(states) do
    local _, leases = keys(scope)
    take_requests(state, requests)
    charge(state, tokens)
    open(state, leases, lease, kibibytes, ttl)
    charges[scope] = { state[EPOCH], state[RATES], state[INDEX], state[TIME] }
  end
  return charges
end

-- {1, charges, meters} or {0, {scope, dimension, wait, permanent}, meters}. The charges of a lease
-- that was taken already are told as -1, to which nothing is ever given back.
local function decide(states, quotas, lease, again, requests, tokens, kibibytes)
  local meters, worst = unmeasured(), nil
  local cost = { requests = requests, tokens = tokens, kibibytes = kibibytes }
  for scope, quota in ipairs(quotas) do
    local state = states[scope]
    advance(state, reading)
    if is_idle(state) then begin(state, quota, reading) else adopt(state, quota) end
    worst = refusal(worst, state, quota, scope, cost, reading)
  end
  local about = {}
  if again and is_taken(states, lease) then
    worst = nil
    for scope = 1, #states do about[scope] = { -1, -1, 0, 0 } end
  elseif worst then
    about = { worst[1], worst[2], worst[4] and 0 or worst[3], worst[4] }
  else
    about = take(states, lease, requests, tokens, kibibytes)
  end
  for scope, state in ipairs(states) do
    -- What a look right now would show: under limits that were just adopted, a clock that was a
    -- little behind may count as set back.
    advance(state, reading)
    measure(meters, state, quotas[scope], scope, reading)
  end
  return { worst and 0 or 1, about, meters }
end

-- Where the state is gone, so are its leases.
local function begin_missing(states, quotas)
  for scope, quota in ipairs(quotas) do
    if not states[scope] then
      local _, leases = keys(scope)
      states[scope] = fresh(quota, reading)
      call('DEL', leases)
    end
  end
end

local function correct(state, undone, actual, tokens, requests, epoch, rates, slot, at)
  advance(state, reading)
  if actual > tokens then
    charge(state, actual - tokens)
  elseif epoch == state[EPOCH] then
    credit(state, slot, tokens - actual)
  end
  if undone and rates == state[RATES] then
    give_back_requests(state, requests, state[TIME] - at)
  end
end

-- Whether a lease was open: if not, it had ended before, at its reserved cost.
local function finish(states, lease, undone, actual, tokens, requests, charges)
  local is_open = true
  for scope, state in ipairs(states) do
    local _, leases = keys(scope)
    if state and call('ZREM', leases, lease) == 1 then
      release(state, lease)
    else
      is_open = false
    end
  end
  if is_open then
    for scope, state in ipairs(states) do
      correct(state, undone, actual, tokens, requests, unpack(charges[scope]))
    end
  end
  return is_open
end

-- Reservations and endings in the order in which they were made.
local function account(items)
  local states, answers, began = load_all(), {}, false
  local quotas = ARGV[2] and cmsgpack.unpack(ARGV[2])
  for position, item in ipairs(items) do
    if item[1] == 'finish' then
      answers[position] = finish(states, unpack(item, 2))
    else
      if not began then begin_missing(states, quotas) end
      began = true
      answers[position] = decide(states, quotas, unpack(item, 2))
    end
  end
  for scope, state in ipairs(states) do
    local _, leases = keys(scope)
    if began and state[OPEN] > 0 then call('PEXPIRE', leases, lease_life(state)) end
  end
  save_all(states)
  return answers
end

-- Starts the time to live of leases again: of all their names, and those of each scope. Tells in
-- the order of the names whether they were open.
local function renew_all(names, members)
  local states, is_open, answers = load_all(), {}, {}
  for _, lease in ipairs(names) do is_open[lease] = true end
  for scope, state in ipairs(states) do
    local _, leases = keys(scope)
    local scores = state and call('ZMSCORE', leases, unpack(members[scope])) or {}
    for position, lease in ipairs(members[scope]) do
      is_open[lease] = is_open[lease] and scores[position] and true or false
    end
  end
  for scope, state in ipairs(states) do
    local _, leases = keys(scope)
    local renewed = {}
    for _, lease in ipairs(members[scope]) do
      if is_open[lease] then
        renewed[#renewed + 1] = text(state[LEASE_TIME] + ttl)
        renewed[#renewed + 1] = lease
      end
    end
    if #renewed > 0 then
      call('ZADD', leases, 'XX', unpack(renewed))
      call('PEXPIRE', leases, lease_life(state))
    end
  end
  save_all(states)
  for position, lease in ipairs(names) do answers[position] = is_open[lease] end
  return answers
end

local function peek()
  local quotas, states, meters = cmsgpack.unpack(ARGV[2]), load_all(), unmeasured()
  for scope, quota in ipairs(quotas) do
    local state = states[scope]
    if state then
      advance(state, reading)
      adopt(state, quota)
    end
    measure(meters, state or fresh(quota, reading), quota, scope, reading)
  end
  save_all(states)
  return meters
end

local function each(items, operate)
  local answers = {}
  for position, item in ipairs(items) do answers[position] = operate(unpack(item)) end
  return answers
end

-- Whether the server would also write.
local function probe()
  return call('SET', KEYS[1], '', 'PX', 1)
end

local operations = {
  account = account,
  renew = function(items) return each(items, renew_all) end,
  peek = function(items) return each(items, peek) end,
  probe = function(items) return each(items, probe) end,
}
return cmsgpack.pack(operations[operation[1]](operation[5]))
