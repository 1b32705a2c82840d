--[[
  Ends a run whose engine crashed. The job waits for another run, or is given up.

    KEYS[1]  prefix of the queue's keys; see ledger.lua
    ARGV[1]-[3] the `limits` of `finish` in ledger.lua
    ARGV[4]  id
    ARGV[5]  token
    ARGV[6]  1 when no other job was in the engine at any time of the run
    ARGV[7]  most runs of a job
    ARGV[8]  error of a job that is given up
    ARGV[9]  error of a job whose client has received a part of the answer

  Returns 'retry', 'ended', or the result of `stale` when the run does not count.
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
