/**
 * Lua scripts by which workers choose among themselves. A worker that was given a job by BullMQ may offer it to another one:
 * the job, its run and its lock then change hands together, once, or stay where they are. A job is passed on once at most.
 */
import { scripts } from './ledger-prelude.js';

/** ARGV: id, token of the run, token of BullMQ's lock, worker that offers, worker that is offered it, ms that the offer holds.
 *  Gives 'offered', or 'kept' where nobody hears the offer. */
const PASS = `
local id, token, to, ms = ARGV[1], ARGV[2], ARGV[5], tonumber(ARGV[6])
local key = base .. 'pass:' .. id
if redis.call('HGET', key, 'token') ~= token then
  redis.call('HSET', key, 'token', token, 'entry', ARGV[3], 'from', ARGV[4], 'to', to, 'untilMs', now + ms, 'state', 'offered')
  redis.call('PEXPIRE', key, 3600000)
end
if redis.call('PUBLISH', base .. 'inbox:' .. to, 'offer:' .. id) == 0 and redis.call('HGET', key, 'state') == 'offered' then
  redis.call('HSET', key, 'state', 'kept')
  return 'kept'
end
return 'offered'
`;

/** ARGV: id, worker. Gives {'taken', token of the run, token of BullMQ's lock, worker that offered it, and of the job as
 *  ledgerBegin} or {'gone'}. */
const TAKE = `
local id = ARGV[1]
local key = base .. 'pass:' .. id
local pass = redis.call('HMGET', key, 'token', 'to', 'from', 'entry', 'state', 'untilMs')
if pass[2] ~= ARGV[2] or pass[5] == 'kept' then return {'gone'} end
local job = redis.call('HMGET', jobKey(id), 'token', 'attempts', 'crashes', 'request', 'sync', 'kind', 'createdMs', 'startedMs')
local over = job[1] ~= pass[1]
if pass[5] == 'offered' and (over or now > tonumber(pass[6])) then
  redis.call('HSET', key, 'state', 'kept')
  redis.call('PUBLISH', base .. 'inbox:' .. pass[3], 'kept:' .. id)
end
if over or redis.call('HGET', key, 'state') == 'kept' then return {'gone'} end
redis.call('HSET', key, 'state', 'taken')
redis.call('PUBLISH', base .. 'inbox:' .. pass[3], 'taken:' .. id)
return {'taken', pass[1], pass[4], pass[3], tonumber(job[2]) or 0, tonumber(job[3]) or 0, job[4] or '', job[5] or '0',
  job[6] or '', job[7] or '0', job[8] or '0'}
`;

/** Ends an offer, by whoever made it or was made it. ARGV: id. Gives 'kept', or 'taken' where it is too late. */
const KEEP = `
local key = base .. 'pass:' .. ARGV[1]
local pass = redis.call('HMGET', key, 'state', 'from')
-- Where nobody knows any more the job may be running elsewhere; BullMQ's lock tells.
if not pass[1] or pass[1] == 'taken' then return 'taken' end
redis.call('HSET', key, 'state', 'kept')
redis.call('PUBLISH', base .. 'inbox:' .. pass[2], 'kept:' .. ARGV[1])
return 'kept'
`;

/** ARGV: worker, its summary ('': it leaves), ms after which a silent worker is forgotten, most bytes of a summary.
 *  Gives {now, then for each worker the time it was heard, and its summary}. */
const BOARD = `
local key = base .. 'summaries'
if ARGV[2] == '' then redis.call('HDEL', key, ARGV[1])
else redis.call('HSET', key, ARGV[1], string.format('%.0f:', now) .. ARGV[2]) end
redis.call('PEXPIRE', key, 60000)
local found = {now}
local all = redis.call('HGETALL', key)
for at = 1, #all, 2 do
  local seen = #all[at + 1] <= tonumber(ARGV[4]) and tonumber(string.match(all[at + 1], '^(%d+):'))
  if not seen or math.abs(now - seen) > tonumber(ARGV[3]) then
    redis.call('HDEL', key, all[at])
  else
    found[#found + 1] = seen
    found[#found + 1] = string.match(all[at + 1], ':(.*)$')
  end
end
return found
`;

const BODIES = {
  placementPass: PASS,
  placementTake: TAKE,
  placementKeep: KEEP,
  placementBoard: BOARD,
} as const;

export type PlacementScript = keyof typeof BODIES;

export const PLACEMENT_SCRIPTS = scripts(BODIES);
