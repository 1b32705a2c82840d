--[[
  Charges a caller's tokens. It differs from the script of rate-limiter-flexible in that the sum never falls below 0.
  A reservation made while Redis was away may be returned here although it was never charged here.

    KEYS[1]  the caller's counter
    ARGV[1]  tokens to charge; negative to return them
    ARGV[2]  seconds after which a new counter expires

  Returns {tokens charged so far, ms until the counter expires}.
]]
redis.call('set', KEYS[1], 0, 'EX', ARGV[2], 'NX')
-- The clock of Redis may have been set back since the counter was set.
if redis.call('pttl', KEYS[1]) > ARGV[2] * 1000 then redis.call('expire', KEYS[1], ARGV[2]) end
local consumed = redis.call('incrby', KEYS[1], ARGV[1])
local ttl = redis.call('pttl', KEYS[1])
if consumed < 0 then
  consumed = 0
  redis.call('set', KEYS[1], 0, 'PX', math.max(1, ttl))
end
return {consumed, ttl}
