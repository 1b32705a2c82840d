--[[
  Reads a job's record and the deltas that the reader does not know.

    KEYS[1]  prefix of the queue's keys: see ledger.lua
    ARGV[1]  id
    ARGV[2]  attempt: the run of which the reader knows deltas
    ARGV[3]  how many of that run it knows

  Returns {fields, deltas, totals}, with the fields
    {kind, owner, sync, form, status, createdMs, startedMs, finishedMs, attempts, result, error}
]]
local id = ARGV[1]
local fields = redis.call('HMGET', jobKey(id),
  'kind', 'owner', 'sync', 'form', 'status', 'createdMs', 'startedMs', 'finishedMs', 'attempts', 'result', 'error')
local from = tonumber(ARGV[3])
if fields[9] ~= ARGV[2] then from = 0 end
return {fields, redis.call('LRANGE', base .. 'deltas:' .. id, from, -1), totals()}
