-- ARGV[1] is the operation: its name, the clock's reading or -1 for the server's own, the time to
-- live of a lease in units, the spare milliseconds that idle keys are kept, and what else it needs.
-- KEYS are those of the scopes, two each.

local operation = cmsgpack.unpack(ARGV[1])
local reading, ttl, spare = operation[2], operation[3], operation[4]
if reading < 0 then
  local time = call('TIME')
  reading = time[1] * 2000000 + time[2] * 2
end

local function keys(scope)
  return KEYS[2 * scope - 1], KEYS[2 * scope]
end

-- {1, charges, meters} or {0, {scope, dimension, wait, permanent}, meters}. A lease of that name
-- that is there already was taken by a call whose answer never came: its charges are told as -1,
-- to which nothing is ever given back.
local function reserve(lease, again, requests, tokens, kibibytes)
  local quotas, meters, states, worst = cmsgpack.unpack(ARGV[2]), unmeasured(), {}, nil
  local cost = { requests = requests, tokens = tokens, kibibytes = kibibytes }
  for scope, quota in ipairs(quotas) do
    local key, leases = keys(scope)
    local state = load(key, leases, reading, ttl)
    if not state then
      state = fresh(quota, reading)
      call('DEL', leases)
    else
      advance(state, reading)
      if is_idle(state) then begin(state, quota, reading) else adopt(state, quota) end
    end
    states[scope] = state
    again = again and call('ZSCORE', leases, lease)
    worst = refusal(worst, state, quota, scope, cost, reading)
  end
  local charges = {}
  for scope, state in ipairs(states) do
    local key, leases = keys(scope)
    if again then
      charges[scope] = { -1, -1, 0, 0 }
    elseif not worst then
      take_requests(state, requests)
      charge(state, tokens)
      open(state, leases, lease, kibibytes, ttl)
      call('PEXPIRE', leases, text(quotient_up(wait(state, LEASE_TIME, reading, ttl), 2000) + spare))
      charges[scope] = { state[EPOCH], state[RATES], state[INDEX], state[TIME] }
    end
    -- What a look right now would show: under limits that were just adopted, a clock that was a
    -- little behind may count as set back.
    advance(state, reading)
    measure(meters, state, quotas[scope], scope, reading)
    save(key, state, reading, ttl, spare)
  end
  if again or not worst then return { 1, charges, meters } end
  local delay = worst[4] and 0 or worst[3]
  return { 0, { worst[1], worst[2], delay, worst[4] }, meters }
end

-- Ends a lease; false if it had ended before. Without `charges` it ends at its reserved cost.
local function finish(lease, undone, actual, tokens, requests, charges)
  local states, is_open = {}, true
  for scope = 1, #KEYS / 2 do
    local key, leases = keys(scope)
    local state = load(key, leases, reading, ttl)
    if state and call('ZREM', leases, lease) == 1 then
      release(state, lease)
    else
      is_open = false
    end
    states[scope] = state or false
  end
  for scope, state in ipairs(states) do
    if state then
      if is_open then
        local epoch, rates, slot, at = unpack(charges[scope])
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
      save(keys(scope), state, reading, ttl, spare)
    end
  end
  return is_open
end

-- Starts the time to live of leases again: of each its name, followed by the numbers of its scopes.
-- Answers in the same order whether they were open.
local function renew(names, members)
  local states, open_in = {}, {}
  for scope = 1, #KEYS / 2 do
    local key, leases = keys(scope)
    local state = load(key, leases, reading, ttl)
    states[scope] = state or false
    local scores = state and call('ZMSCORE', leases, unpack(members[scope], 1)) or {}
    for position, lease in ipairs(members[scope]) do
      if open_in[lease] == nil then open_in[lease] = true end
      if not scores[position] then open_in[lease] = false end
    end
  end
  for scope, state in ipairs(states) do
    local key, leases = keys(scope)
    if state then
      local expiry, renewed = text(state[LEASE_TIME] + ttl), {}
      for _, lease in ipairs(members[scope]) do
        if open_in[lease] then
          renewed[#renewed + 1] = expiry
          renewed[#renewed + 1] = lease
        end
      end
      if #renewed > 0 then
        call('ZADD', leases, 'XX', unpack(renewed))
        call('PEXPIRE', leases, text(quotient_up(wait(state, LEASE_TIME, reading, ttl), 2000) + spare))
      end
      save(key, state, reading, ttl, spare)
    end
  end
  local answers = {}
  for position, lease in ipairs(names) do answers[position] = open_in[lease] end
  return answers
end

local function peek()
  local quotas, meters = cmsgpack.unpack(ARGV[2]), unmeasured()
  for scope, quota in ipairs(quotas) do
    local key, leases = keys(scope)
    local state = load(key, leases, reading, ttl)
    if state then
      advance(state, reading)
      adopt(state, quota)
      save(key, state, reading, ttl, spare)
    else
      state = fresh(quota, reading)
    end
    measure(meters, state, quota, scope, reading)
  end
  return meters
end

-- Whether the server would also write.
local function probe()
  call('SET', KEYS[1], '', 'PX', 1)
  return true
end

local operations = { reserve = reserve, finish = finish, renew = renew, peek = peek, probe = probe }
return cmsgpack.pack(operations[operation[1]](unpack(operation, 5)))
