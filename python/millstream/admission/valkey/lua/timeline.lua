-- A clock made monotone: a reading behind the last one passes no time; one that is further behind
-- than `memory` means that the clock was set back (a fail-over) and time goes on from there; when
-- it is set forward again, what was already lived through passes no second time.

local function observe(state, at, reading, memory)
  local seen, ceiling = state[at + 1], state[at + 2]
  if reading < seen then
    if seen - reading > memory then
      state[at + 1], state[at + 2] = reading, max(ceiling, seen)
    end
    return 0
  end
  local from = seen
  if seen < ceiling and ceiling <= reading then from = ceiling end
  state[at], state[at + 1] = state[at] + (reading - from), reading
  return reading - from
end

-- Units of the clock from `reading`, which was observed, until `delay` has passed.
local function wait(state, at, reading, delay)
  if delay == 0 then return 0 end
  local seen, ceiling = state[at + 1], state[at + 2]
  local ready = seen + delay
  if seen < ceiling and ceiling <= ready then ready = ceiling + delay end
  return max(ready - reading, 0)
end
