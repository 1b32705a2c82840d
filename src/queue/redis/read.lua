--[[
  Reads a job's record and the deltas that the reader does not have yet. An open job whose place in the queue is gone
  gets it back.

    KEYS[1]  prefix of the queue's keys; see ledger.lua
    ARGV[1]  id
    ARGV[2]  attempt: the number of the run whose deltas the reader has
    ARGV[3]  number of that run's deltas that the reader has

  Returns {fields, deltas, totals}. A field that is absent is nil; fields is
    {kind, owner, sync, form, status, createdMs, startedMs, finishedMs, attempts, result, error}
]]
local id = ARGV[1]
if not isRecord(id) and redis.call('EXISTS', jobKey(id)) == 1 then forget(id) end
local fields = redis.call('HMGET', jobKey(id),
  'kind', 'owner', 'sync', 'form', 'status', 'createdMs', 'startedMs', 'finishedMs', 'attempts', 'result', 'error')
local from = tonumber(ARGV[3])
if fields[9] ~= ARGV[2] then from = 0 end
local status = fields[5]
if status == 'queued' or status == 'running' then mend(id) end
return {fields, redis.call('LRANGE', base .. 'deltas:' .. id, from, -1), totals()}
