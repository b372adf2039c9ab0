-- Tokens of the last window, in a ring of one slot more than the window has. The oldest slot is
-- only partly inside the window and is counted whole.

local function place(slot)
  return RING + fmod(slot, SLOTS + 1)
end

local function empty_ring(state, slot)
  state[SLOT], state[SUM] = slot, 0
  state[INDEX] = slot == NONE and 0 or quotient(state[TIME], slot)
  for position = RING, RING + SLOTS do state[position] = 0 end
end

local function roll(state)
  if state[SLOT] == NONE then return end
  local index = quotient(state[TIME], state[SLOT])
  if state[SUM] == 0 or index - state[INDEX] > SLOTS then
    if index > state[INDEX] then empty_ring(state, state[SLOT]) end
    return
  end
  for slot = state[INDEX] + 1, index do
    local position = place(slot)
    state[SUM] = state[SUM] - state[position]
    state[position] = 0
  end
  state[INDEX] = index
end

-- A debt after the fact may exceed the limit.
local function charge(state, tokens)
  if state[SLOT] == NONE then return end
  local position = place(state[INDEX])
  tokens = min(tokens, LARGEST - state[SUM])
  state[position] = state[position] + tokens
  state[SUM] = state[SUM] + tokens
end

-- To the slot of the reservation, or nothing if it has left the ring.
local function credit(state, slot, tokens)
  if slot > state[INDEX] or state[INDEX] - slot > SLOTS then return end
  local position = place(slot)
  tokens = min(tokens, state[position])
  state[position] = state[position] - tokens
  state[SUM] = state[SUM] - tokens
end

local function leaves_after(state, slot)
  return (slot + SLOTS + 1) * state[SLOT] - state[TIME]
end

-- Units until `tokens`, which do not exceed the limit, fit.
local function time_to_fit(state, limit, tokens)
  local sum = state[SUM]
  if sum + tokens <= limit then return 0 end
  for slot = max(state[INDEX] - SLOTS, 0), state[INDEX] do
    sum = sum - state[place(slot)]
    if sum + tokens <= limit then return leaves_after(state, slot) end
  end
  return 0
end

local function time_to_empty(state)
  if state[SLOT] == NONE or state[SUM] == 0 then return 0 end
  for slot = state[INDEX], max(state[INDEX] - SLOTS, 0), -1 do
    if state[place(slot)] > 0 then return leaves_after(state, slot) end
  end
  return 0
end

-- A ring for another window counts everything as used just now.
local function adopt_window(state, quota)
  if state[SLOT] == quota[Q_SLOT] then return end
  local used = state[SLOT] == NONE and 0 or state[SUM]
  empty_ring(state, quota[Q_SLOT])
  charge(state, used)
  state[EPOCH] = state[EPOCH] + 1
end
