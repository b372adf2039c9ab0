-- Requests by token bucket. Multiplied only where the product is known to fit: a bucket that has
-- had time to fill is full.

local function capacity(state)
  return state[BURST] * state[SCALE]
end

local function time_to_gain(state, level)
  if level <= 0 or state[RATE] <= 0 then return 0 end
  return quotient_up(level, state[RATE])
end

local function fill(state, quota)
  state[RATE], state[SCALE], state[BURST] = quota[Q_RATE], quota[Q_SCALE], quota[Q_BURST]
  state[LEVEL] = quota[Q_RATE] == NONE and 0 or quota[Q_BURST] * quota[Q_SCALE]
end

-- A bucket that gives nothing back has no state worth keeping.
local function bucket_is_full(state)
  return state[RATE] <= 0 or state[LEVEL] == capacity(state)
end

local function refill(state, elapsed)
  if bucket_is_full(state) then return end
  if elapsed >= time_to_gain(state, capacity(state) - state[LEVEL]) then
    state[LEVEL] = capacity(state)
  else
    state[LEVEL] = state[LEVEL] + elapsed * state[RATE]
  end
end

local function take_requests(state, requests)
  if state[RATE] == NONE then return end
  state[LEVEL] = max(state[LEVEL] - requests * state[SCALE], 0)
end

-- Less what time has given back since: the bound on any window stands.
local function give_back_requests(state, requests, elapsed)
  if state[RATE] == NONE then return end
  local level = requests * state[SCALE]
  if state[RATE] > 0 then
    level = elapsed >= time_to_gain(state, level) and 0 or level - elapsed * state[RATE]
  end
  state[LEVEL] = min(state[LEVEL] + level, capacity(state))
end

-- The same requests under another rate, never more than fit; a full bucket stays full.
local function adopt_bucket(state, quota)
  if state[RATE] == quota[Q_RATE] and state[SCALE] == quota[Q_SCALE]
    and state[BURST] == quota[Q_BURST] then
    return
  end
  local full, level, scale = bucket_is_full(state), state[LEVEL], state[SCALE]
  fill(state, quota)
  state[RATES] = state[RATES] + 1
  if full or quota[Q_RATE] == NONE then return end
  local requests = quotient(level, scale)
  if requests < quota[Q_BURST] then
    local part = scaled(fmod(level, scale), quota[Q_SCALE], scale)
    state[LEVEL] = min(requests * quota[Q_SCALE] + part, state[LEVEL])
  end
end
