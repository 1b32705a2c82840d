--[[
  The shared beginning of every script of the ledger: its keys, its clock, and the functions that several scripts use.

    KEYS[1] prefix of the queue's keys. It contains a hash tag, so all keys with the prefix share a slot of a cluster.

  Decisions use the ledger's clock `now`, which no change of Redis's clock moves by more than a few seconds; see `tick`.
  No decision depends on the clock of another machine. Expiry times of keys do follow Redis's clock, so they only bound
  what `sweep` has not removed.

  Keys under <prefix>:ledger:
    clock          hash: now (the ledger's clock in ms) and wall (Redis's clock when `now` was last stored)
    job:<id>       hash: order (of acceptance) kind owner sync form key digest request status acceptedAt and deadlineAt (of
                   the ledger's clock) createdMs startedMs finishedMs (Unix ms) attempts crashes spared (runs that were
                   handed back) token (of the run that counts) over (token of the last run that ended or was requeued)
                   overAs (what that run's command returned) streamed deltaBytes stopped result error
    deltas:<id>    list: deltas of the current run of a streamed completion
    queued         sorted set: ids of waiting jobs, by order
    leases         sorted set: ids of running jobs, by the end of the run's lease
    deadlines      sorted set: ids of jobs that have a deadline and have not ended, by deadline
    ended          sorted set: ids of kept jobs that have ended, by the time at which they are dropped
    leaving        sorted set: ids of ended jobs, by the time at which their deltas are dropped, and their records when
                   a client waits for them
    sizes          hash: bytes of the answer of each job in `ended`
    key:<hash>     string: the id of the job that an idempotency key created; goes with that job
    fenced:<token>:<id>  string: set once this run is counted as fenced
    claim:<worker> string: token of the worker's last claim that found a job
    workers        sorted set: ids of workers that take jobs, by their last heartbeat
    idle           set: ids of workers that have room while no job waits
    counters       hash: accepted fenced retried quarantined, bytes (of the kept answers), the number of ended jobs
                   dropped for each reason (retention number dropped-bytes), beatAt (last heartbeat of any worker),
                   auditedAt (last audit; see status.lua)
  Channels under <prefix>:ledger:
    events:<id>   a follower of the job should read it again
    stops         the message is the id of a job that was stopped; its run must end
    work:<worker> a wake-up: a job waits for this worker to claim it
]]
-- A worker without a heartbeat for this long is dead.
local SILENT_MS = 15000

-- The longest time between two scripts of a queue in use: a worker sends a heartbeat every 2 s. The ledger's clock
-- advances by no more at a time.
local STEP_MS = 3000
-- Keys that no script removes expire after a week of Redis's clock.
local UNUSED_MS = 7 * 86400000

local base = KEYS[1] .. ':ledger:'
local time = redis.call('TIME')
local wall = time[1] * 1000 + math.floor(time[2] / 1000)

-- Advances the ledger's clock by the time that Redis's clock has advanced, by 0 when that was set back, and by STEP_MS
-- at most. It stands still while Redis is away or no process uses the queue. A clock that is lost goes on from the last
-- time that was stored elsewhere, so that nothing ages by what Redis's clock has been set forward since.
local function tick()
  local last = redis.call('HMGET', base .. 'clock', 'now', 'wall')
  local before, seen = tonumber(last[1]), tonumber(last[2])
  local step = seen and wall - seen or 0
  local at = before and before + math.max(0, math.min(step, STEP_MS))
  if not at then
    local stored = redis.call('HMGET', base .. 'counters', 'beatAt', 'auditedAt')
    at = math.max(tonumber(stored[1]) or 0, tonumber(stored[2]) or 0)
    if at == 0 then at = wall end
  end
  -- Every script would otherwise write. A clock that cannot be stored, because Redis is full, stands still.
  if not before or step < 0 or step >= 50 then redis.pcall('HSET', base .. 'clock', 'now', at, 'wall', wall) end
  return at
end
local now = tick()

local function jobKey(id) return base .. 'job:' .. id end
local function tell(id, what) redis.call('PUBLISH', base .. 'events:' .. id, what) end
local function count(name) redis.call('HINCRBY', base .. 'counters', name, 1) end

-- False when the record is gone or a value of another type stands in its place.
local function isRecord(id) return redis.call('TYPE', jobKey(id)).ok == 'hash' end

-- Adds to a number of the record and returns the sum. A value that is not a number counts as 0.
local function add(id, field, by)
  local value = (tonumber(redis.call('HGET', jobKey(id), field)) or 0) + by
  redis.call('HSET', jobKey(id), field, value)
  return value
end

-- The present in Unix ms, as far after the creation as the ledger's clock says, and not before the last run began:
-- a clock that is set back takes what `tick` has not stored.
local function shown(id)
  local job = redis.call('HMGET', jobKey(id), 'createdMs', 'acceptedAt', 'startedMs')
  local at = (tonumber(job[1]) or wall) + math.max(0, now - (tonumber(job[2]) or now))
  return math.max(at, tonumber(job[3]) or 0)
end

-- Removes the idempotency key that created the job.
local function dropKey(id)
  local key = isRecord(id) and redis.call('HGET', jobKey(id), 'key')
  if key and redis.call('GET', base .. 'key:' .. key) == id then redis.call('DEL', base .. 'key:' .. key) end
end

-- Removes an ended job. `why` is the counter to increment; nil counts nothing.
local function drop(id, why)
  dropKey(id)
  redis.call('ZREM', base .. 'ended', id)
  redis.call('ZREM', base .. 'leaving', id)
  redis.call('HINCRBY', base .. 'counters', 'bytes', 0 - tonumber(redis.call('HGET', base .. 'sizes', id) or 0))
  redis.call('HDEL', base .. 'sizes', id)
  redis.call('DEL', jobKey(id), base .. 'deltas:' .. id)
  if why then count(why) end
end

-- Drops ended jobs and deltas whose time has come.
local function sweep()
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', base .. 'ended', '-inf', now, 'LIMIT', 0, 100)) do
    drop(old, 'retention')
  end
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', base .. 'leaving', '-inf', now, 'LIMIT', 0, 100)) do
    redis.call('ZREM', base .. 'leaving', old)
    redis.call('DEL', base .. 'deltas:' .. old)
    if isRecord(old) and redis.call('HGET', jobKey(old), 'sync') == '1' then redis.call('DEL', jobKey(old)) end
  end
end

-- Removes the job from the sets of jobs that wait, run or have a deadline.
local function close(id)
  redis.call('ZREM', base .. 'queued', id)
  redis.call('ZREM', base .. 'leases', id)
  redis.call('ZREM', base .. 'deadlines', id)
end

-- Removes a job whose record is gone or is of another type.
local function forget(id)
  close(id)
  drop(id)
  tell(id, 'ended')
end

-- Ends a job. `limits` is {ms that an ended job is kept, most bytes of all kept answers, most ended jobs}.
local function finish(id, status, field, value, limits)
  local key = jobKey(id)
  local job = redis.call('HMGET', key, 'sync', 'deadlineAt', 'stopped', 'streamed')
  local sync = job[1] == '1'
  -- The client takes the answer at once. When Redis goes away first, the client takes it once Redis is back, but not
  -- after the deadline.
  local waits = sync and job[3] ~= '1' and math.ceil((tonumber(job[2]) or 0) - now) or 0
  local taken = math.max(60000, waits)
  redis.call('HSET', key, 'status', status, 'finishedMs', shown(id), field, value)
  redis.call('HDEL', key, 'request', 'token')
  redis.call('PEXPIRE', key, limits[1] + UNUSED_MS)
  close(id)
  if sync or job[4] == '1' then redis.call('ZADD', base .. 'leaving', now + taken, id) end
  if sync then return tell(id, 'ended') end
  local size = field == 'result' and #value or 0
  redis.call('HSET', base .. 'sizes', id, size)
  redis.call('ZADD', base .. 'ended', now + limits[1], id)
  redis.call('HINCRBY', base .. 'counters', 'bytes', size)
  sweep()
  while true do
    local why = nil
    if tonumber(redis.call('HGET', base .. 'counters', 'bytes')) > tonumber(limits[2]) then why = 'dropped-bytes' end
    if redis.call('ZCARD', base .. 'ended') > tonumber(limits[3]) then why = 'number' end
    if not why then break end
    -- Of jobs that ended in one millisecond the order is that of their ids, so this one may come first.
    local oldest = redis.call('ZRANGE', base .. 'ended', 0, 1)
    local old = oldest[1] == id and oldest[2] or oldest[1]
    if not old or old == id then break end
    drop(old, why)
  end
  tell(id, 'ended')
end

-- Sends a wake-up to one worker that has room. If the worker has died, another finds the job at its next periodic
-- claim.
local function wake()
  while true do
    local worker = redis.call('SPOP', base .. 'idle')
    if not worker then return end
    local alive = tonumber(redis.call('ZSCORE', base .. 'workers', worker))
    if alive and now - alive < SILENT_MS then return redis.call('PUBLISH', base .. 'work:' .. worker, 1) end
  end
end

-- Requeues a running job at its place in the order of acceptance.
local function wait(id)
  local key = jobKey(id)
  redis.call('HSET', key, 'status', 'queued')
  redis.call('HDEL', key, 'token')
  redis.call('ZREM', base .. 'leases', id)
  redis.call('ZADD', base .. 'queued', tonumber(redis.call('HGET', key, 'order')) or 0, id)
  tell(id, 'queued')
  wake()
end

-- Extends leases after an outage. When no worker has sent a heartbeat for half a lease, Redis may have been away.
-- Leases that ended in the meantime then last for another `grace` ms, so that live workers can reconnect and renew
-- them.
local function spare(lease, grace)
  local before = tonumber(redis.call('HGET', base .. 'counters', 'beatAt')) or now
  if now - before <= lease / 2 then return end
  redis.call('HSET', base .. 'counters', 'beatAt', now)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', base .. 'leases', '-inf', now)) do
    redis.call('ZADD', base .. 'leases', now + grace, id)
  end
end

-- Puts an open job back into the sets that have lost it, because Redis evicts keys one by one and an operator may
-- delete any. A run whose lease is lost gets one that lasts until its worker's next heartbeats.
local function mend(id)
  local job = redis.call('HMGET', jobKey(id), 'status', 'order', 'deadlineAt')
  if job[1] == 'queued' then
    if redis.call('ZADD', base .. 'queued', 'NX', tonumber(job[2]) or 0, id) == 1 then wake() end
  elseif job[1] == 'running' then
    redis.call('ZADD', base .. 'leases', 'NX', now + SILENT_MS, id)
  else
    return close(id)
  end
  local deadline = tonumber(job[3]) or 0
  if deadline > 0 then redis.call('ZADD', base .. 'deadlines', 'NX', deadline, id) end
end

local function totals()
  return redis.call('HMGET', base .. 'counters',
    'fenced', 'retried', 'quarantined', 'bytes', 'retention', 'number', 'dropped-bytes')
end

-- Stores what this run's command returned, for a worker that repeats the command.
local function over(id, token, as)
  if isRecord(id) then redis.call('HSET', jobKey(id), 'over', token, 'overAs', as) end
  return as
end

-- Returns nil while the run counts. Otherwise it returns the earlier result of this run's command (the worker repeats
-- the command), 'stopped' when the job was stopped on purpose, or 'fenced' when another run has replaced this one. A
-- fenced run is counted once.
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

-- Ends a job and its run. Returns 1, or 0 when the job had ended before or is gone.
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

-- True when a client waits for the job and has received deltas, so that another run must not start the answer again.
local function seen(id)
  local run = redis.call('HMGET', jobKey(id), 'sync', 'streamed')
  return run[1] == '1' and run[2] == '1'
end
