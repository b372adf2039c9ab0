-- A clock made monotone: a reading behind the last one passes no time; one that is further behind
-- than `memory` means that the clock was set back (a fail-over) and time goes on from there; when
-- it is set forth to where it would have been, what was already lived through passes no second time.

local function observe(state, at, reading, memory)
  local now, seen = state[at], state[at + 1]
  if reading < seen then
    if seen - reading > memory then state[at + 1] = reading end
    return 0
  end
  local from = seen
  if seen < now and now <= reading then from = now end
  state[at], state[at + 1] = now + (reading - from), reading
  return reading - from
end

-- Units of the clock from `reading`, which was observed, until `delay` has passed.
local function wait(state, at, reading, delay)
  if delay == 0 then return 0 end
  local now, seen = state[at], state[at + 1]
  local ready = seen + delay
  if seen < now and now <= ready then ready = now + delay end
  return max(ready - reading, 0)
end

-- The same for what must not be lost before: a clock that was set back may be set right meanwhile,
-- and the server lets keys expire by it.
local function lasting(state, at, reading, delay)
  if delay == 0 then return 0 end
  return wait(state, at, reading, delay) + state[at] - state[at + 1]
end
