--[[
  Removes a job whose client has its answer: nobody else may ask for it.

    ARGV[1]  id

  Returns 1.
]]
if redis.call('HGET', jobKey(ARGV[1]), 'status') == 'completed' then
  redis.call('DEL', jobKey(ARGV[1]), base .. 'deltas:' .. ARGV[1])
end
return 1
