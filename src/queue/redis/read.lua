--[[
  Reads a job's record and, for a follower, the deltas that it does not have yet. An open job whose place in the queue
  is gone gets it back.

    KEYS[1]  prefix of the queue's keys; see ledger.lua
    ARGV[1]  id
    ARGV[2]  of a follower: the number of the run whose deltas it has
    ARGV[3]  of a follower: the number of that run's deltas that it has

  Returns {fields, deltas, totals}. A field that is absent is nil; fields is
    {kind, owner, sync, form, status, createdMs, startedMs, finishedMs, attempts, result, error}
  A follower gets no form: it may be as large as the request, and does not change.
]]
local id, attempt = ARGV[1], ARGV[2]
if not isRecord(id) and redis.call('EXISTS', jobKey(id)) == 1 then forget(id) end
local fields = redis.call('HMGET', jobKey(id),
  'kind', 'owner', 'sync', attempt and 'kind' or 'form', 'status', 'createdMs', 'startedMs', 'finishedMs', 'attempts',
  'result', 'error')
local status = fields[5]
if status == 'queued' or status == 'running' then mend(id) end
if not attempt then return {fields, {}, totals()} end
if fields[4] then fields[4] = '' end
local from = fields[9] == attempt and tonumber(ARGV[3]) or 0
return {fields, redis.call('LRANGE', base .. 'deltas:' .. id, from, -1), totals()}
