/**
 * What all Lua scripts of a queue begin with: its keys, its clock, and the steps that several scripts share. KEYS[1] is the
 * queue's prefix, which carries a hash tag, so that all keys built from it share a slot. Times are Unix milliseconds of
 * Redis's own clock: no other machine's clock decides anything.
 *
 * Under `<prefix>:ledger:`
 *   job:<id>     hash: kind owner sync form digest request status createdMs deadlineMs startedMs finishedMs attempts crashes spared
 *                token (of the run that counts) over (token of the run that ended it) overAs streamed pieceBytes stopped
 *                result error fenced:<token>
 *   pieces:<id>  list: pieces of a streamed completion of the current run
 *   open         sorted set: ids that have not ended, by createdMs
 *   queued       those of them that wait for a run         deadlines  those that have one, by it
 *   ended        sorted set: kept ids by when they go      sizes      hash: bytes of their answers
 *   key:<hash>   string: the id that a key made            workers    sorted set: worker ids by last sign of life
 *   counters     hash: bytes (of answers that are kept), fenced, retried, quarantined, and what was dropped for which reason
 */
const PRELUDE = `
local base = KEYS[1] .. ':ledger:'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function jobKey(id) return base .. 'job:' .. id end
local function tell(id, what) redis.call('PUBLISH', base .. 'events:' .. id, what) end
local function count(name) redis.call('HINCRBY', base .. 'counters', name, 1) end
local function drop(id, why)
  redis.call('ZREM', base .. 'ended', id)
  redis.call('HINCRBY', base .. 'counters', 'bytes', 0 - tonumber(redis.call('HGET', base .. 'sizes', id) or 0))
  redis.call('HDEL', base .. 'sizes', id)
  redis.call('DEL', jobKey(id), base .. 'pieces:' .. id)
  if why then count(why) end
end
local function dropOld()
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', base .. 'ended', '-inf', now, 'LIMIT', 0, 100)) do drop(old, 'retention') end
end
local function close(id)
  redis.call('ZREM', base .. 'open', id)
  redis.call('ZREM', base .. 'queued', id)
  redis.call('ZREM', base .. 'deadlines', id)
end
-- limits: {ms that an ended job is kept, bytes of the answers of all that are, their number}
local function finish(id, status, field, value, limits)
  local key = jobKey(id)
  local job = redis.call('HMGET', key, 'sync', 'deadlineMs', 'stopped')
  local sync = job[1] == '1'
  -- Its client takes the answer at once, or, where Redis goes away now, when it is back: it waits until its deadline.
  local waits = sync and job[3] ~= '1' and math.ceil((tonumber(job[2]) or 0) - now) or 0
  local taken = math.max(60000, waits)
  redis.call('HSET', key, 'status', status, 'finishedMs', now, field, value)
  redis.call('HDEL', key, 'request', 'token')
  close(id)
  redis.call('PEXPIRE', base .. 'pieces:' .. id, taken)
  if sync then redis.call('PEXPIRE', key, taken) return tell(id, 'ended') end
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
local function wait(id)
  local key = jobKey(id)
  redis.call('HSET', key, 'status', 'queued')
  redis.call('HDEL', key, 'token')
  redis.call('ZADD', base .. 'queued', redis.call('HGET', key, 'createdMs'), id)
  tell(id, 'queued')
end
local function totals()
  return redis.call('HMGET', base .. 'counters', 'fenced', 'retried', 'quarantined', 'bytes', 'retention', 'number', 'dropped-bytes')
end
local function over(id, token, as)
  if redis.call('EXISTS', jobKey(id)) == 1 then redis.call('HSET', jobKey(id), 'over', token, 'overAs', as) end
  return as
end
-- A run whose token is no longer the job's: its late result is counted once, unless the job was stopped on purpose.
local function fence(id, token)
  local key = jobKey(id)
  if redis.call('HGET', key, 'stopped') == '1' then return 'stopped' end
  if redis.call('EXISTS', key) == 0 or redis.call('HSETNX', key, 'fenced:' .. token, now) == 1 then count('fenced') end
  return 'fenced'
end
-- How this very run was ended before (a command that was sent again), that it no longer counts, or nil: it counts.
local function stale(id, token)
  local run = redis.call('HMGET', jobKey(id), 'token', 'over', 'overAs')
  if run[1] == token then return nil end
  if run[2] == token then return run[3] end
  return fence(id, token)
end
local function stop(id, status, error)
  local before = redis.call('HGET', jobKey(id), 'status')
  if before ~= 'queued' and before ~= 'running' then return 0 end
  redis.call('HSET', jobKey(id), 'stopped', 1)
  finish(id, status, 'error', error, ARGV)
  redis.call('PUBLISH', base .. 'stops', id)
  return 1
end
local function seen(id)
  local run = redis.call('HMGET', jobKey(id), 'sync', 'streamed')
  return run[1] == '1' and run[2] == '1'
end
`;

export interface Script {
  numberOfKeys: number;
  lua: string;
}

export function scripts<Name extends string>(bodies: Record<Name, string>): Record<Name, Script> {
  const entries = Object.entries<string>(bodies);
  return Object.fromEntries(
    entries.map(([name, body]) => [name, { numberOfKeys: 1, lua: PRELUDE + body }]),
  ) as Record<Name, Script>;
}
