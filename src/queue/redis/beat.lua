--[[
  The heartbeat of a worker. It renews the leases of the worker's runs.

    KEYS[1]  prefix of the queue's keys; see ledger.lua
    ARGV[1]  lease in ms
    ARGV[2]  grace in ms; see `spare`
    ARGV[3]  worker id
    ARGV[4]  1 while the worker takes jobs
    ARGV[5]  job id of the first run
    ARGV[6]  token of the first run; the other runs follow in the same pairs

  Returns {time, answer, …}: the time of Redis's clock in Unix ms, then for each run 'ok', or the result of `stale`
  when it no longer counts.
]]
spare(tonumber(ARGV[1]), tonumber(ARGV[2]))
redis.call('HSET', base .. 'counters', 'beatAt', now)
redis.call('ZREMRANGEBYSCORE', base .. 'workers', '-inf', now - 3600000)
if ARGV[4] == '1' then
  redis.call('ZADD', base .. 'workers', now, ARGV[3])
else
  redis.call('SREM', base .. 'idle', ARGV[3])
end
local answer = {wall}
for at = 5, #ARGV, 2 do
  local id = ARGV[at]
  local why = stale(id, ARGV[at + 1])
  if not why then redis.call('ZADD', base .. 'leases', now + ARGV[1], id) end
  answer[#answer + 1] = why or 'ok'
end
return answer
