-- One scope: its state under one key, its leases under the next, in order of expiry. A lease's
-- name ends in the KiB that it holds. Where the state has gone, so have the leases.

local function begin(state, quota, reading)
  state[TIME], state[TIME + 1] = reading, reading
  state[MEMORY] = quota[Q_MEMORY]
  state[RATES], state[EPOCH] = 0, 0
  fill(state, quota)
  empty_ring(state, quota[Q_SLOT])
end

local function fresh(quota, reading)
  local state = {}
  state[LEASE_TIME], state[LEASE_TIME + 1] = reading, reading
  state[OPEN], state[HELD], state[NEXT_EXPIRY] = 0, 0, 0
  begin(state, quota, reading)
  return state
end

local function kibibytes_of(lease)
  return tonumber(string.match(lease, '%d+$'))
end

local function release(state, lease)
  state[OPEN] = max(state[OPEN] - 1, 0)
  state[HELD] = max(state[HELD] - kibibytes_of(lease), 0)
end

-- Counts what is there, where the server has dropped leases that were open: those of a dead worker
-- before anybody asked, or all of them to save memory.
local function recount(state, leases)
  state[OPEN], state[HELD] = 0, 0
  for _, lease in ipairs(call('ZRANGE', leases, 0, -1)) do
    state[OPEN], state[HELD] = state[OPEN] + 1, state[HELD] + kibibytes_of(lease)
  end
end

-- Ends the leases that have expired, at their reserved cost.
local function expire(state, leases, reading, ttl)
  observe(state, LEASE_TIME, reading, ttl)
  if state[OPEN] == 0 or state[LEASE_TIME] < state[NEXT_EXPIRY] then return end
  local now = text(state[LEASE_TIME])
  local expired = call('ZRANGEBYSCORE', leases, '-inf', now)
  if #expired > 0 then
    call('ZREMRANGEBYSCORE', leases, '-inf', now)
    for _, lease in ipairs(expired) do release(state, lease) end
  end
  if call('ZCARD', leases) ~= state[OPEN] then recount(state, leases) end
  local oldest = call('ZRANGE', leases, 0, 0, 'WITHSCORES')
  if oldest[2] then state[NEXT_EXPIRY] = tonumber(oldest[2]) end
end

local function open(state, leases, lease, kibibytes, ttl)
  local expiry = state[LEASE_TIME] + ttl
  if state[OPEN] == 0 or expiry < state[NEXT_EXPIRY] then state[NEXT_EXPIRY] = expiry end
  state[OPEN], state[HELD] = state[OPEN] + 1, state[HELD] + kibibytes
  call('ZADD', leases, text(expiry), lease)
end

local function advance(state, reading)
  local elapsed = observe(state, TIME, reading, state[MEMORY])
  if elapsed > 0 then
    refill(state, elapsed)
    roll(state)
  end
end

-- Goes on under another quota: nothing that was used is forgotten.
local function adopt(state, quota)
  adopt_bucket(state, quota)
  adopt_window(state, quota)
  state[MEMORY] = quota[Q_MEMORY]
end

local function is_idle(state)
  return state[OPEN] == 0 and state[SUM] == 0 and bucket_is_full(state)
end

local function load(key, leases, reading, ttl)
  local packed = call('GET', key)
  if not packed then return nil end
  local state = cmsgpack.unpack(packed)
  expire(state, leases, reading, ttl)
  return state
end

-- Milliseconds until keeping the state makes no difference, rounded up.
local function useful(state, reading, ttl)
  local units = max(time_to_gain(state, capacity(state) - state[LEVEL]), time_to_empty(state))
  units = lasting(state, TIME, reading, units)
  if state[OPEN] > 0 then units = max(units, lasting(state, LEASE_TIME, reading, ttl)) end
  return quotient_up(units, 2000)
end

local function save(key, state, reading, ttl, spare)
  call('SET', key, cmsgpack.pack(state), 'PX', text(useful(state, reading, ttl) + spare))
end
