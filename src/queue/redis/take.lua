--[[
  Removes a completed job after its waiting client has received the answer. No other client can ask for it.

    KEYS[1]  prefix of the queue's keys; see ledger.lua
    ARGV[1]  id

  Returns 1.
]]
if redis.call('HGET', jobKey(ARGV[1]), 'status') == 'completed' then
  redis.call('ZREM', base .. 'leaving', ARGV[1])
  redis.call('DEL', jobKey(ARGV[1]), base .. 'deltas:' .. ARGV[1])
end
return 1
