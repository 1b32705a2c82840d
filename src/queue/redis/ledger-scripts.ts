/** The ledger's Lua scripts: each is one atomic step of a job's life. */
import { scripts } from './ledger-prelude.js';

/** ARGV: id, kind, owner, sync, form, request, deadlineMs (from now; 0: none), bound, key ('': none), digest, longest wait in ms.
 *  Gives {'accepted'}, {'exists', id}, {'conflict'}, {'full'} or {'taken'}: the id is another job's. */
const ACCEPT = `
local id, kind, owner, sync, form, request = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local deadline, bound, key, digest, longest = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9], ARGV[10], tonumber(ARGV[11])
if key ~= '' then
  local other = redis.call('GET', base .. 'key:' .. key)
  if other and redis.call('EXISTS', jobKey(other)) == 1 then
    if redis.call('HGET', jobKey(other), 'digest') == digest then return {'exists', other} end
    return {'conflict'}
  end
end
if redis.call('EXISTS', jobKey(id)) == 1 then return {'taken'} end
if redis.call('ZCARD', base .. 'queued') >= bound then return {'full'} end
redis.call('HSET', jobKey(id), 'kind', kind, 'owner', owner, 'sync', sync, 'form', form, 'digest', digest, 'request', request,
  'status', 'queued', 'createdMs', now, 'deadlineMs', deadline > 0 and now + deadline or 0, 'attempts', 0, 'crashes', 0)
redis.call('PEXPIRE', jobKey(id), longest)
redis.call('ZADD', base .. 'open', now, id)
redis.call('ZADD', base .. 'queued', now, id)
if deadline > 0 then redis.call('ZADD', base .. 'deadlines', now + deadline, id) end
if key ~= '' then redis.call('SET', base .. 'key:' .. key, id, 'PX', longest) end
return {'accepted'}
`;

/** ARGV: limits (3), id, token, attempts, most request bytes, errors: expired, given up, stream broken, too large.
 *  Gives {'run', attempt, crashes, request, sync, kind, createdMs, startedMs}, {'failed', attempts, kind, createdMs,
 *  sync, error} where this ended it, or {'over'}: there is nothing to run. */
const BEGIN = `
local id, token, most, bytes = ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local key = jobKey(id)
local job = redis.call('HMGET', key, 'status', 'token', 'attempts', 'crashes', 'deadlineMs', 'spared', 'kind', 'createdMs', 'sync')
if job[1] ~= 'queued' and job[1] ~= 'running' then return {'over'} end
local attempts = tonumber(job[3]) or 0
if job[2] ~= token then
  local function fail(error)
    finish(id, 'failed', 'error', error, ARGV)
    return {'failed', attempts, job[7] or '', job[8] or '0', job[9] or '0', error}
  end
  local deadline = tonumber(job[5]) or 0
  if deadline > 0 and now > deadline then return fail(ARGV[8]) end
  if attempts - (tonumber(job[6]) or 0) >= most then count('quarantined') return fail(ARGV[9]) end
  if seen(id) then return fail(ARGV[10]) end
  if redis.call('HSTRLEN', key, 'request') > bytes then return fail(ARGV[11]) end
  if attempts > 0 then count('retried') end
  attempts = attempts + 1
  redis.call('HSET', key, 'status', 'running', 'token', token, 'attempts', attempts, 'startedMs', now, 'pieceBytes', 0)
  redis.call('ZREM', base .. 'queued', id)
  redis.call('DEL', base .. 'pieces:' .. id)
  tell(id, 'running')
end
return {'run', attempts, tonumber(job[4]) or 0, redis.call('HGET', key, 'request') or '', job[9] or '0',
  job[7] or '', job[8] or '0', redis.call('HGET', key, 'startedMs') or '0'}
`;

/** ARGV: limits (3), id, token, status, field, value. Gives 'ended', 'fenced' or 'stopped'. */
const FINISH = `
local id, token = ARGV[4], ARGV[5]
local before = stale(id, token)
if before then return before end
finish(id, ARGV[6], ARGV[7], ARGV[8], ARGV)
return over(id, token, 'ended')
`;

/** ARGV: limits (3), id, token, alone, attempts, errors: given up, stream broken.
 *  Gives 'retry', 'ended', 'fenced' or 'stopped'. */
const CRASH = `
local id, token = ARGV[4], ARGV[5]
local before = stale(id, token)
if before then return before end
local crashes = redis.call('HINCRBY', jobKey(id), 'crashes', 1)
local runs = redis.call('HMGET', jobKey(id), 'attempts', 'spared')
local attempts = (tonumber(runs[1]) or 0) - (tonumber(runs[2]) or 0)
if seen(id) then
  finish(id, 'failed', 'error', ARGV[9], ARGV)
elseif (crashes >= 2 and ARGV[6] == '1') or attempts >= tonumber(ARGV[7]) then
  count('quarantined')
  finish(id, 'failed', 'error', ARGV[8], ARGV)
else
  wait(id)
  return over(id, token, 'retry')
end
return over(id, token, 'ended')
`;

/** The worker ends before the job does: the run does not count among those that a job may have. ARGV: limits (3), id, token, error: stream broken.
 *  Gives 'retry', 'ended', 'fenced' or 'stopped'. */
const HAND_BACK = `
local id, token = ARGV[4], ARGV[5]
local before = stale(id, token)
if before then return before end
if seen(id) then
  finish(id, 'failed', 'error', ARGV[6], ARGV)
  return over(id, token, 'ended')
end
redis.call('HINCRBY', jobKey(id), 'spared', 1)
wait(id)
return over(id, token, 'retry')
`;

/** ARGV: id, token, most bytes of a job, pieces. Gives 'ok', 'full', 'fenced' or 'stopped'. */
const PIECES = `
local id, token, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local before = stale(id, token)
if before then return before end
local bytes = 0
for at = 4, #ARGV do bytes = bytes + #ARGV[at] end
if redis.call('HINCRBY', jobKey(id), 'pieceBytes', bytes) > most then return 'full' end
for at = 4, #ARGV do redis.call('RPUSH', base .. 'pieces:' .. id, ARGV[at]) end
redis.call('PEXPIRE', base .. 'pieces:' .. id, 86400000)
redis.call('HSET', jobKey(id), 'streamed', 1)
tell(id, 'pieces')
return 'ok'
`;

/** ARGV: pairs of id and token. Gives for each 'ok', or why its run no longer counts. */
const CHECK = `
local answers = {}
for at = 1, #ARGV, 2 do answers[#answers + 1] = stale(ARGV[at], ARGV[at + 1]) or 'ok' end
return answers
`;

/** ARGV: limits (3), id, status, error. Ends a job that has not ended. Gives 1 when it did. */
const STOP = `
return stop(ARGV[4], ARGV[5], ARGV[6])
`;

/** The answer was taken, and nobody else may ask for it. ARGV: id. */
const TAKEN = `
if redis.call('HGET', jobKey(ARGV[1]), 'status') == 'completed' then
  redis.call('DEL', jobKey(ARGV[1]), base .. 'pieces:' .. ARGV[1])
end
return 1
`;

/** ARGV: id, attempt that the pieces known so far are of, their number. Gives {fields, pieces after those, totals}. */
const READ = `
local id = ARGV[1]
local fields = redis.call('HMGET', jobKey(id), 'kind', 'owner', 'sync', 'form', 'status', 'createdMs', 'startedMs', 'finishedMs',
  'attempts', 'result', 'error')
local from = tonumber(ARGV[3])
if fields[9] ~= ARGV[2] then from = 0 end
return {fields, redis.call('LRANGE', base .. 'pieces:' .. id, from, -1), totals()}
`;

/** Ends what is past its deadline and drops what was kept long enough. ARGV: limits (3), error: expired, ms after which a
 *  silent worker is dead. Gives {queued, open, workers, ended, totals, {id, kind, createdMs, attempts of each kept job that this ended}}. */
const STATUS = `
local late = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', base .. 'deadlines', '-inf', now, 'LIMIT', 0, 1000)) do
  if stop(id, 'failed', ARGV[4]) == 0 then
    close(id)
  else
    local job = redis.call('HMGET', jobKey(id), 'sync', 'kind', 'createdMs', 'attempts')
    if job[1] ~= '1' then for _, value in ipairs({id, job[2] or '', job[3] or '0', job[4] or '0'}) do late[#late + 1] = value end end
  end
end
dropOld()
return {redis.call('ZCARD', base .. 'queued'), redis.call('ZCARD', base .. 'open'),
  redis.call('ZCOUNT', base .. 'workers', now - tonumber(ARGV[5]), '+inf'), redis.call('ZCARD', base .. 'ended'), totals(), late}
`;

/** A worker's sign of life, or with a second ARGV its end. ARGV: worker id, 'end'. Gives the time. */
const ALIVE = `
redis.call('ZREMRANGEBYSCORE', base .. 'workers', '-inf', now - 3600000)
if ARGV[2] == 'end' then redis.call('ZREM', base .. 'workers', ARGV[1]) else redis.call('ZADD', base .. 'workers', now, ARGV[1]) end
return now
`;

/** ARGV: least age in ms, what a BullMQ job of ours holds. Gives {open jobs that BullMQ does not know, those whose BullMQ job
 *  somebody changed}. BullMQ does not know a job whose producer died while adding it, or that it has given up. */
const STRAYS = `
local orphans, changed = {}, {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', base .. 'open', '-inf', now - tonumber(ARGV[1]), 'LIMIT', 0, 1000)) do
  -- A value of another type is a table that tells of the error.
  local data = redis.pcall('HGET', KEYS[1] .. ':job-' .. id, 'data')
  if redis.call('EXISTS', jobKey(id)) == 0 then
    close(id)
  elseif not data then
    orphans[#orphans + 1] = id
  elseif data ~= ARGV[2] then
    changed[#changed + 1] = id
  end
end
return {orphans, changed}
`;

/** Forgets a job whose record is not one. ARGV: id. */
const FORGET = `
close(ARGV[1])
drop(ARGV[1])
tell(ARGV[1], 'ended')
return 1
`;

const BODIES = {
  ledgerAccept: ACCEPT,
  ledgerBegin: BEGIN,
  ledgerFinish: FINISH,
  ledgerCrash: CRASH,
  ledgerHandBack: HAND_BACK,
  ledgerPieces: PIECES,
  ledgerCheck: CHECK,
  ledgerStop: STOP,
  ledgerTaken: TAKEN,
  ledgerRead: READ,
  ledgerStatus: STATUS,
  ledgerAlive: ALIVE,
  ledgerStrays: STRAYS,
  ledgerForget: FORGET,
} as const;

export type LedgerScript = keyof typeof BODIES;

export const LEDGER_SCRIPTS = scripts(BODIES);
