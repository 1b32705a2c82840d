--[[
  Ends jobs that are past their deadline, drops kept jobs whose retention has ended, and returns the numbers of jobs
  and workers.

    KEYS[1]  prefix of the queue's keys; see ledger.lua
    ARGV[1]-[3] the `limits` of `finish` in ledger.lua
    ARGV[4]  error of a job past its deadline

  Returns {queued, running, workers, ended, totals, late}. `late` has four values for each kept job that this call
  ended:
    id, kind, createdMs, attempts
]]
local late = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', base .. 'deadlines', '-inf', now, 'LIMIT', 0, 1000)) do
  if stop(id, 'failed', ARGV[4], ARGV) == 0 then
    close(id)
  else
    local job = redis.call('HMGET', jobKey(id), 'sync', 'kind', 'createdMs', 'attempts')
    if job[1] ~= '1' then
      for _, value in ipairs({id, job[2] or '', job[3] or '0', job[4] or '0'}) do late[#late + 1] = value end
    end
  end
end
dropOld()
local workers = redis.call('ZCOUNT', base .. 'workers', now - SILENT_MS, '+inf')
return {redis.call('ZCARD', base .. 'queued'), redis.call('ZCARD', base .. 'leases'), workers,
  redis.call('ZCARD', base .. 'ended'), totals(), late}
