--[[
  Ends jobs that are past their deadline, drops kept jobs whose retention has ended, and returns the numbers of jobs
  and workers. Every ten seconds it audits the queue, so that its numbers follow the jobs that exist.

    KEYS[1]  prefix of the queue's keys; see ledger.lua
    ARGV[1]-[3] the `limits` of `finish` in ledger.lua
    ARGV[4]  error of a job past its deadline

  Returns {queued, running, workers, ended, totals, late}. `late` has five values for each kept job that this call
  ended:
    id, kind, createdMs, finishedMs, attempts
]]
local AUDIT_MS = 10000

-- Forgets the jobs whose records are gone, puts jobs back into the sets that have lost them, and counts the bytes of
-- the kept answers anew.
local function audit()
  for _, set in ipairs({'queued', 'leases', 'deadlines', 'ended', 'leaving'}) do
    for _, id in ipairs(redis.call('ZRANGE', base .. set, 0, -1)) do
      if not isRecord(id) then
        forget(id)
      elseif set ~= 'ended' and set ~= 'leaving' then
        mend(id)
      end
    end
  end
  local sizes, bytes = redis.call('HGETALL', base .. 'sizes'), 0
  for at = 1, #sizes, 2 do
    if redis.call('ZSCORE', base .. 'ended', sizes[at]) then
      bytes = bytes + (tonumber(sizes[at + 1]) or 0)
    else
      redis.call('HDEL', base .. 'sizes', sizes[at])
    end
  end
  redis.call('HSET', base .. 'counters', 'bytes', bytes, 'auditedAt', now)
  -- A lost counter must not put new jobs before those that wait.
  local last = redis.call('ZRANGE', base .. 'queued', -1, -1, 'WITHSCORES')[2]
  local order = tonumber(redis.call('HGET', base .. 'counters', 'accepted')) or 0
  if last and tonumber(last) > order then redis.call('HSET', base .. 'counters', 'accepted', last) end
end

if now - (tonumber(redis.call('HGET', base .. 'counters', 'auditedAt')) or 0) >= AUDIT_MS then audit() end
local late = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', base .. 'deadlines', '-inf', now, 'LIMIT', 0, 1000)) do
  if stop(id, 'failed', ARGV[4], ARGV) == 0 then
    close(id)
  else
    local job = redis.call('HMGET', jobKey(id), 'sync', 'kind', 'createdMs', 'finishedMs', 'attempts')
    if job[1] ~= '1' then
      for at = 2, 5 do job[at] = job[at] or '0' end
      for _, value in ipairs({id, job[2], job[3], job[4], job[5]}) do late[#late + 1] = value end
    end
  end
end
sweep()
local workers = redis.call('ZCOUNT', base .. 'workers', now - SILENT_MS, '+inf')
return {redis.call('ZCARD', base .. 'queued'), redis.call('ZCARD', base .. 'leases'), workers,
  redis.call('ZCARD', base .. 'ended'), totals(), late}
