-- The state of one scope is an array of whole numbers, packed with MessagePack. Lua's numbers are
-- doubles: every one of these, and every intermediate, stays exact because it stays below 2^53.
-- Times are in units of 500 ns: 16 slots of a window of whole milliseconds are whole units each.

local fmod, floor, max, min = math.fmod, math.floor, math.max, math.min
local call, format = redis.call, string.format
local LARGEST = 9007199254740991
local NONE = -1
local SLOTS = 16

-- Two timelines, of what is used and of the leases: the monotone time, and the clock's reading that
-- it stands for.
local TIME, LEASE_TIME = 1, 3
-- How far a saved time may lie ahead of the clock before the clock counts as set back.
local MEMORY = 5
-- The bucket: its level and how fast it rises are in requests * SCALE. A lease gives requests back
-- only to the rate (counted by RATES) that it took them from, tokens to the ring (EPOCH).
local RATE, SCALE, BURST, LEVEL, RATES = 6, 7, 8, 9, 10
-- The window: the length of a slot, the number of the current one, the sum over the ring.
local SLOT, INDEX, SUM, EPOCH = 11, 12, 13, 14
-- Open leases, the KiB that they hold, and a time before which none of them expires.
local OPEN, HELD, NEXT_EXPIRY = 15, 16, 17
local RING = 18

-- A quota, as `millstream.admission.valkey.quotas` writes it; NONE is no limit.
local Q_RATE, Q_SCALE, Q_BURST, Q_MEMORY, Q_TOKENS, Q_SLOT, Q_LEASES, Q_KIBIBYTES =
  1, 2, 3, 4, 5, 6, 7, 8

-- Lua would write large numbers with an exponent.
local function text(number)
  return format('%.0f', number)
end

local function quotient(number, divisor)
  return (number - fmod(number, divisor)) / divisor
end

local function quotient_up(number, divisor)
  local rest = fmod(number, divisor)
  return (number - rest) / divisor + (rest > 0 and 1 or 0)
end

-- number * factor / divisor rounded down, for number < divisor <= 2^52: bit by bit, as the product
-- itself may not be exact.
local function scaled(number, factor, divisor)
  local result, rest, bit = 0, 0, 1
  while bit <= factor do bit = bit * 2 end
  while bit > 1 do
    bit = bit / 2
    result, rest = result * 2, rest * 2
    if rest >= divisor then result, rest = result + 1, rest - divisor end
    if factor >= bit then
      factor, rest = factor - bit, rest + number
      if rest >= divisor then result, rest = result + 1, rest - divisor end
    end
  end
  return result
end
