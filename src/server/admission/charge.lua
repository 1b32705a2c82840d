--[[
  Charges a caller's tokens, as the script of rate-limiter-flexible does but for one thing: the sum never falls below 0.
  A reservation that was made while Redis was away is given back although it was never taken here.

    KEYS[1]  the caller's counter
    ARGV[1]  tokens; below 0 gives back
    ARGV[2]  seconds after which the counter ends

  Returns {tokens charged so far, ms until the counter ends}.
]]
redis.call('set', KEYS[1], 0, 'EX', ARGV[2], 'NX')
local consumed = redis.call('incrby', KEYS[1], ARGV[1])
local ttl = redis.call('pttl', KEYS[1])
if consumed < 0 then
  consumed = 0
  redis.call('set', KEYS[1], 0, 'PX', math.max(1, ttl))
end
return {consumed, ttl}
