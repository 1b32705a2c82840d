--[[
  The engine stopped while it ran the job: the job waits for another run, or is given up.

    KEYS[1]  prefix of the queue's keys: see ledger.lua
    ARGV[1]-[3] limits of `finish`
    ARGV[4]  id
    ARGV[5]  token
    ARGV[6]  1 where no other job was in the engine at any time of the run
    ARGV[7]  most runs of a job
    ARGV[8]  error of a job that is given up
    ARGV[9]  error of a job whose client has seen a part of the answer

  Returns 'retry', 'ended', or why the run does not count: see `stale`.
]]
local id, token = ARGV[4], ARGV[5]
local why = stale(id, token)
if why then return why end
local crashes = add(id, 'crashes', 1)
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
