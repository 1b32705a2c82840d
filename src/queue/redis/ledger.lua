--[[
  What every script of the ledger begins with: its keys, its clock, and the steps that several scripts share.

    KEYS[1] prefix of the queue's keys. It holds a hash tag, so all keys made from it share a slot of a cluster.

  Times are Unix milliseconds of Redis's own clock: no other machine's clock decides anything.

  Keys under <prefix>:ledger:
    job:<id>       hash: order (of acceptance) kind owner sync form digest request status createdMs deadlineMs startedMs
                   finishedMs attempts crashes spared (runs that were handed back) token (of the run that counts) over
                   (token of the run that ended it) overAs streamed deltaBytes stopped result error
    deltas:<id>    list: deltas of a streamed completion, of the current run
    queued         sorted set: ids that wait for a run, by order
    leases         sorted set: ids that run, by when the lease of their run ends
    deadlines      sorted set: ids that have not ended and have a deadline, by it
    ended          sorted set: kept ids that have ended, by when they are dropped
    sizes          hash: bytes of the answer of each of those
    key:<hash>     string: the id that an idempotency key made
    fenced:<token>:<id>  string: this run was counted as fenced
    claim:<worker> string: token of the worker's last claim that found a job
    workers        sorted set: ids of workers that take jobs, by their last sign of life
    idle           set: ids of workers that have room when no job waits
    counters       hash: accepted fenced retried quarantined, bytes (of the answers that are kept), how many ended jobs
                   were dropped for which reason (retention number dropped-bytes), beatMs (last beat of any worker)
  Channels under <prefix>:ledger:
    events:<id>   there is news of the job
    stops         the id of a job that was stopped: its run ends
    work:<worker> a job waits for this worker to claim it
]]
-- A worker that gave no sign of life for so long is dead.
local SILENT_MS = 15000

local base = KEYS[1] .. ':ledger:'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function jobKey(id) return base .. 'job:' .. id end
local function tell(id, what) redis.call('PUBLISH', base .. 'events:' .. id, what) end
local function count(name) redis.call('HINCRBY', base .. 'counters', name, 1) end

-- False where the record is gone, or where a value of another type stands in its place.
local function isRecord(id) return redis.call('TYPE', jobKey(id)).ok == 'hash' end

-- Adds to a number of the record and gives it; what is not a number counts as 0.
local function add(id, field, by)
  local value = (tonumber(redis.call('HGET', jobKey(id), field)) or 0) + by
  redis.call('HSET', jobKey(id), field, value)
  return value
end

-- Removes a kept job that has ended.
local function drop(id, why)
  redis.call('ZREM', base .. 'ended', id)
  redis.call('HINCRBY', base .. 'counters', 'bytes', 0 - tonumber(redis.call('HGET', base .. 'sizes', id) or 0))
  redis.call('HDEL', base .. 'sizes', id)
  redis.call('DEL', jobKey(id), base .. 'deltas:' .. id)
  if why then count(why) end
end

local function dropOld()
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', base .. 'ended', '-inf', now, 'LIMIT', 0, 100)) do
    drop(old, 'retention')
  end
end

-- The job neither waits nor runs any more.
local function close(id)
  redis.call('ZREM', base .. 'queued', id)
  redis.call('ZREM', base .. 'leases', id)
  redis.call('ZREM', base .. 'deadlines', id)
end

-- Removes a job whose record is not one.
local function forget(id)
  close(id)
  drop(id)
  tell(id, 'ended')
end

-- Ends a job. limits: {ms that an ended job is kept, bytes of all kept answers, number of ended jobs}.
local function finish(id, status, field, value, limits)
  local key = jobKey(id)
  local job = redis.call('HMGET', key, 'sync', 'deadlineMs', 'stopped')
  local sync = job[1] == '1'
  -- The client takes the answer at once or, when Redis goes away now, once it is back: it waits until its deadline.
  local waits = sync and job[3] ~= '1' and math.ceil((tonumber(job[2]) or 0) - now) or 0
  local taken = math.max(60000, waits)
  redis.call('HSET', key, 'status', status, 'finishedMs', now, field, value)
  redis.call('HDEL', key, 'request', 'token')
  close(id)
  redis.call('PEXPIRE', base .. 'deltas:' .. id, taken)
  if sync then
    redis.call('PEXPIRE', key, taken)
    return tell(id, 'ended')
  end
  redis.call('PEXPIRE', key, limits[1])
  local size = field == 'result' and #value or 0
  redis.call('HSET', base .. 'sizes', id, size)
  redis.call('ZADD', base .. 'ended', now + limits[1], id)
  redis.call('HINCRBY', base .. 'counters', 'bytes', size)
  dropOld()
  while true do
    local why = nil
    if tonumber(redis.call('HGET', base .. 'counters', 'bytes')) > tonumber(limits[2]) then why = 'dropped-bytes' end
    if redis.call('ZCARD', base .. 'ended') > tonumber(limits[3]) then why = 'number' end
    local old = why and redis.call('ZRANGE', base .. 'ended', 0, 0)[1]
    if not old or old == id then break end
    drop(old, why)
  end
  tell(id, 'ended')
end

-- Wakes one worker that has room. Where it has died, others find the job when they look.
local function wake()
  while true do
    local worker = redis.call('SPOP', base .. 'idle')
    if not worker then return end
    local alive = tonumber(redis.call('ZSCORE', base .. 'workers', worker))
    if alive and now - alive < SILENT_MS then return redis.call('PUBLISH', base .. 'work:' .. worker, 1) end
  end
end

-- Puts a job that ran back among those that wait, at its place in the order of acceptance.
local function wait(id)
  local key = jobKey(id)
  redis.call('HSET', key, 'status', 'queued')
  redis.call('HDEL', key, 'token')
  redis.call('ZREM', base .. 'leases', id)
  redis.call('ZADD', base .. 'queued', tonumber(redis.call('HGET', key, 'order')) or 0, id)
  tell(id, 'queued')
  wake()
end

-- Without a beat of any worker for half a lease, Redis may have been away: leases that ended meanwhile last for the
-- grace, in which workers that are alive come back and renew theirs.
local function spare(lease, grace)
  local before = tonumber(redis.call('HGET', base .. 'counters', 'beatMs')) or now
  if now - before <= lease / 2 then return end
  redis.call('HSET', base .. 'counters', 'beatMs', now)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', base .. 'leases', '-inf', now)) do
    redis.call('ZADD', base .. 'leases', now + grace, id)
  end
end

local function totals()
  return redis.call('HMGET', base .. 'counters',
    'fenced', 'retried', 'quarantined', 'bytes', 'retention', 'number', 'dropped-bytes')
end

-- Remembers how a run ended its job, for a command that is sent again.
local function over(id, token, as)
  if isRecord(id) then redis.call('HSET', jobKey(id), 'over', token, 'overAs', as) end
  return as
end

-- Nil where the run still counts. Otherwise how this same run ended the job before (the command was sent again),
-- 'stopped' where the job was stopped on purpose, or 'fenced' where another run took its place, counted once a run.
local function stale(id, token)
  -- The job may have ended and be gone.
  if isRecord(id) then
    local run = redis.call('HMGET', jobKey(id), 'token', 'over', 'overAs', 'stopped')
    if run[1] == token then return nil end
    if run[2] == token then return run[3] end
    if run[4] == '1' then return 'stopped' end
  end
  if redis.call('SET', base .. 'fenced:' .. token .. ':' .. id, 1, 'NX', 'PX', 3600000) then count('fenced') end
  return 'fenced'
end

-- Ends a job that has not ended, and its run. Gives 1 where it did.
local function stop(id, status, error, limits)
  if not isRecord(id) then
    forget(id)
    return 0
  end
  local before = redis.call('HGET', jobKey(id), 'status')
  if before ~= 'queued' and before ~= 'running' then return 0 end
  redis.call('HSET', jobKey(id), 'stopped', 1)
  finish(id, status, 'error', error, limits)
  redis.call('PUBLISH', base .. 'stops', id)
  return 1
end

-- A client that waits for the job has seen some of its answer, so another run must not begin the answer again.
local function seen(id)
  local run = redis.call('HMGET', jobKey(id), 'sync', 'streamed')
  return run[1] == '1' and run[2] == '1'
end
