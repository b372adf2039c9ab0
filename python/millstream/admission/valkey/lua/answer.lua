-- What is told: the worst refusal, and the tightest scope of each dimension.

local REQUESTS, TOKENS, LEASES, KIBIBYTES = 1, 2, 3, 4

-- What waiting cannot cure before what it can, leases (nobody knows how long they stay) before
-- time, the longer wait before the shorter, the first scope before the next.
local function worse(worst, scope, dimension, delay, permanent)
  local leases = dimension >= LEASES
  local found = { scope, dimension, delay, permanent, leases }
  if not worst then return found end
  local severer
  if permanent ~= worst[4] then
    severer = permanent
  elseif leases ~= worst[5] then
    severer = leases
  else
    severer = not leases and delay > worst[3]
  end
  local longest = max(delay, worst[3])
  if not severer then found = worst end
  found[3] = longest
  return found
end

local function refusal(worst, state, quota, scope, cost, reading)
  if quota[Q_RATE] ~= NONE then
    if quota[Q_RATE] == 0 or cost.requests > quota[Q_BURST] then
      worst = worse(worst, scope, REQUESTS, 0, true)
    else
      local delay = time_to_gain(state, cost.requests * state[SCALE] - state[LEVEL])
      if delay > 0 then
        worst = worse(worst, scope, REQUESTS, wait(state, TIME, reading, delay), false)
      end
    end
  end
  if quota[Q_TOKENS] ~= NONE then
    if cost.tokens > quota[Q_TOKENS] then
      worst = worse(worst, scope, TOKENS, 0, true)
    else
      local delay = time_to_fit(state, quota[Q_TOKENS], cost.tokens)
      if delay > 0 then
        worst = worse(worst, scope, TOKENS, wait(state, TIME, reading, delay), false)
      end
    end
  end
  if quota[Q_LEASES] ~= NONE and state[OPEN] >= quota[Q_LEASES] then
    worst = worse(worst, scope, LEASES, 0, quota[Q_LEASES] == 0)
  end
  -- Who asks for no memory is not refused, not even when a smaller quota was adopted.
  if quota[Q_KIBIBYTES] ~= NONE and cost.kibibytes > 0
    and state[HELD] + cost.kibibytes > quota[Q_KIBIBYTES] then
    worst = worse(worst, scope, KIBIBYTES, 0, cost.kibibytes > quota[Q_KIBIBYTES])
  end
  return worst
end

-- The fewest left, then the longest reset, then the first scope; a meter is four numbers.
local function tighten(meters, dimension, scope, limit, left, reset)
  local at = dimension * 4 - 3
  left = max(left, 0)
  if meters[at] ~= 0 and (left > meters[at + 2]
    or left == meters[at + 2] and reset <= meters[at + 3]) then
    return
  end
  meters[at], meters[at + 1], meters[at + 2], meters[at + 3] = scope, limit, left, reset
end

local function measure(meters, state, quota, scope, reading)
  if quota[Q_RATE] ~= NONE then
    local left = quota[Q_RATE] == 0 and 0 or quotient(state[LEVEL], state[SCALE])
    local reset = time_to_gain(state, capacity(state) - state[LEVEL])
    tighten(meters, REQUESTS, scope, quota[Q_BURST], left, wait(state, TIME, reading, reset))
  end
  if quota[Q_TOKENS] ~= NONE then
    local reset = wait(state, TIME, reading, time_to_empty(state))
    tighten(meters, TOKENS, scope, quota[Q_TOKENS], quota[Q_TOKENS] - state[SUM], reset)
  end
  if quota[Q_LEASES] ~= NONE then
    tighten(meters, LEASES, scope, quota[Q_LEASES], quota[Q_LEASES] - state[OPEN], 0)
  end
  if quota[Q_KIBIBYTES] ~= NONE then
    tighten(meters, KIBIBYTES, scope, quota[Q_KIBIBYTES], quota[Q_KIBIBYTES] - state[HELD], 0)
  end
end

local function unmeasured()
  return { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
end
