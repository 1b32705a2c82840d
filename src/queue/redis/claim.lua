--[[
  Requeues the jobs of dead workers, then starts runs of the oldest waiting jobs on one worker. Each run holds a lease
  on its job; a worker that does not renew the lease in time loses the job.

    KEYS[1]  prefix of the queue's keys; see ledger.lua
    ARGV[1]-[3] the `limits` of `finish` in ledger.lua
    ARGV[4]  token of the runs that this claim starts
    ARGV[5]  worker id
    ARGV[6]  number of jobs that the worker has room for
    ARGV[7]  lease in ms
    ARGV[8]  grace in ms; see `spare`
    ARGV[9]  most runs of a job
    ARGV[10] most bytes of a request
    ARGV[11] error of a job past its deadline
    ARGV[12] error of a job that has reached the limit on runs
    ARGV[13] error of a job whose client has received a part of the answer
    ARGV[14] error of a job whose request is too large

  Returns {more, found}. `more` is 1 when other jobs may wait, because the worker lacks room or other workers get
  their share. It is 0 when no job waits; the worker is then idle until it gets a wake-up. `found` has one entry a
  job:
    {'run', id, attempt, crashes, request, sync, kind, createdMs, startedMs}
    {'failed', id, attempts, sync, kind, createdMs, finishedMs, error}: the job must not run, and has been ended
    {'broken', id}: the value in place of the job's record was no record, and has been removed
]]
local token, worker, room = ARGV[4], ARGV[5], tonumber(ARGV[6])
local last = base .. 'claim:' .. worker
local lease, grace, most, bytes = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])

spare(lease, grace)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', base .. 'leases', '-inf', now, 'LIMIT', 0, 1000)) do
  if isRecord(id) then wait(id) else forget(id) end
end

local found, size = {}, 0

local function give(id)
  local job = redis.call('HMGET', jobKey(id),
    'request', 'attempts', 'crashes', 'sync', 'kind', 'createdMs', 'startedMs')
  local request = job[1] or ''
  size = size + #request
  found[#found + 1] = {'run', id, tonumber(job[2]), tonumber(job[3]) or 0, request,
    job[4] or '0', job[5] or '', job[6] or '0', job[7] or '0'}
end

local function begin(id)
  local key = jobKey(id)
  local job = redis.call('HMGET', key, 'status', 'attempts', 'spared', 'deadlineAt', 'sync', 'kind', 'createdMs')
  if job[1] ~= 'queued' then return close(id) end
  local attempts = tonumber(job[2]) or 0
  local function fail(error)
    finish(id, 'failed', 'error', error, ARGV)
    found[#found + 1] = {'failed', id, attempts, job[5] or '0', job[6] or '', job[7] or '0', tostring(shown(id)), error}
  end
  local deadline = tonumber(job[4]) or 0
  if deadline > 0 and now > deadline then return fail(ARGV[11]) end
  if attempts - (tonumber(job[3]) or 0) >= most then
    count('quarantined')
    return fail(ARGV[12])
  end
  if seen(id) then return fail(ARGV[13]) end
  if redis.call('HSTRLEN', key, 'request') > bytes then return fail(ARGV[14]) end
  if attempts > 0 then count('retried') end
  redis.call('HSET', key,
    'status', 'running', 'token', token, 'attempts', attempts + 1, 'startedMs', shown(id), 'deltaBytes', 0)
  redis.call('ZREM', base .. 'queued', id)
  redis.call('ZADD', base .. 'leases', now + lease, id)
  redis.call('DEL', base .. 'deltas:' .. id)
  tell(id, 'running')
  give(id)
end

-- The worker repeats a claim with the same token when the first reply is lost. It gets the same runs again.
if redis.call('GET', last) == token then
  for _, id in ipairs(redis.call('ZRANGE', base .. 'leases', 0, -1)) do
    if isRecord(id) and redis.call('HGET', jobKey(id), 'token') == token then give(id) end
  end
  if #found > 0 then return {1, found} end
end

-- A worker gets only its share, so that a burst of jobs is spread over the workers. A worker with more room claims
-- again.
local workers = redis.call('ZCOUNT', base .. 'workers', now - SILENT_MS, '+inf')
local share = math.ceil(redis.call('ZCARD', base .. 'queued') / math.max(1, workers))
while #found < math.min(room, share) and size <= bytes do
  local id = redis.call('ZRANGE', base .. 'queued', 0, 0)[1]
  if not id then break end
  if isRecord(id) then
    begin(id)
  else
    forget(id)
    found[#found + 1] = {'broken', id}
  end
end
if #found > 0 then redis.call('SET', last, token, 'PX', UNUSED_MS) end
if #found < room and redis.call('ZCARD', base .. 'queued') == 0 then
  redis.call('SADD', base .. 'idle', worker)
  return {0, found}
end
redis.call('SREM', base .. 'idle', worker)
return {1, found}
