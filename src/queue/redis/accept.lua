--[[
  Accepts a job and lets it wait for a run.

    KEYS[1]  prefix of the queue's keys; see ledger.lua
    ARGV[1]  id
    ARGV[2]  kind
    ARGV[3]  owner
    ARGV[4]  sync: 1 when a client waits for the job, 0 when its answer is kept
    ARGV[5]  form: the form of the answer, as JSON; empty when a client waits, whose server knows it
    ARGV[6]  request, as JSON
    ARGV[7]  deadline in ms from now; 0 means none. The server that accepted a job with a waiting client ends it by its
             own clock; the ledger ends the job some seconds later when that server has died.
    ARGV[8]  bound: most jobs that may wait
    ARGV[9]  idempotency key, hashed with the owner; empty means none
    ARGV[10] digest of the request, compared with that of an earlier request with the same key
    ARGV[11] most bytes of all requests that wait. A request that is larger may wait alone.

  Returns
    {'accepted'}
    {'exists', id}: an earlier request with this key created job id
    {'conflict'}: the key belongs to a different request
    {'full'}: the bound is reached
    {'full-bytes', bytes}: the requests that wait would have so many bytes together
    {'taken'}: another job has the id
]]
local id, kind, owner, sync, form, request = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local deadline, bound = tonumber(ARGV[7]), tonumber(ARGV[8])
local key, digest, boundBytes = ARGV[9], ARGV[10], tonumber(ARGV[11])

if key ~= '' then
  local other = redis.call('GET', base .. 'key:' .. key)
  if other and isRecord(other) then
    if redis.call('HGET', jobKey(other), 'digest') == digest then return {'exists', other} end
    return {'conflict'}
  end
end
if redis.call('EXISTS', jobKey(id)) == 1 then return {'taken'} end
if redis.call('ZCARD', base .. 'queued') >= bound then return {'full'} end
-- The bound on their number also bounds the bytes of small requests, so only a large one pays for the sum.
if #request > 4096 then
  local waits = 0
  for _, other in ipairs(redis.call('ZRANGE', base .. 'queued', 0, -1)) do
    waits = waits + redis.call('HSTRLEN', jobKey(other), 'request')
  end
  if waits > 0 and waits + #request > boundBytes then return {'full-bytes', waits + #request} end
end

if deadline > 0 and sync == '1' then deadline = deadline + 10000 end
local due = deadline > 0 and now + deadline or 0
local order = redis.call('HINCRBY', base .. 'counters', 'accepted', 1)
redis.call('HSET', jobKey(id), 'order', order, 'kind', kind, 'owner', owner, 'sync', sync, 'form', form,
  'digest', digest, 'request', request, 'status', 'queued', 'createdMs', wall,
  'acceptedAt', now, 'deadlineAt', due, 'attempts', 0, 'crashes', 0)
redis.call('PEXPIRE', jobKey(id), UNUSED_MS)
redis.call('ZADD', base .. 'queued', order, id)
if due > 0 then redis.call('ZADD', base .. 'deadlines', due, id) end
if key ~= '' then
  redis.call('HSET', jobKey(id), 'key', key)
  redis.call('SET', base .. 'key:' .. key, id, 'PX', UNUSED_MS)
end
wake()
return {'accepted'}
