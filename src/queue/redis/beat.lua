--[[
  A worker's sign of life: renews the leases of its runs.

    KEYS[1]  prefix of the queue's keys: see ledger.lua
    ARGV[1]  lease in ms
    ARGV[2]  grace: see `spare`
    ARGV[3]  worker id
    ARGV[4]  1 while the worker takes jobs
    ARGV[5]  id of the first run's job, ARGV[6] its token; and so on in pairs

  Returns {time, for each run 'ok' or why it no longer counts: see `stale`, …}.
]]
spare(tonumber(ARGV[1]), tonumber(ARGV[2]))
redis.call('HSET', base .. 'counters', 'beatMs', now)
redis.call('ZREMRANGEBYSCORE', base .. 'workers', '-inf', now - 3600000)
if ARGV[4] == '1' then
  redis.call('ZADD', base .. 'workers', now, ARGV[3])
else
  redis.call('SREM', base .. 'idle', ARGV[3])
end
local answer = {now}
for at = 5, #ARGV, 2 do
  local id = ARGV[at]
  local why = stale(id, ARGV[at + 1])
  if not why then redis.call('ZADD', base .. 'leases', now + ARGV[1], id) end
  answer[#answer + 1] = why or 'ok'
end
return answer
