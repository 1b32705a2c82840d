--[[
  The worker leaves before its run has ended: the job waits for another worker. The run does not count among those that
  a job may have.

    KEYS[1]  prefix of the queue's keys: see ledger.lua
    ARGV[1]-[3] limits of `finish`
    ARGV[4]  id
    ARGV[5]  token
    ARGV[6]  error of a job whose client has seen a part of the answer

  Returns 'retry', 'ended', or why the run does not count: see `stale`.
]]
local id, token = ARGV[4], ARGV[5]
local why = stale(id, token)
if why then return why end
if seen(id) then
  finish(id, 'failed', 'error', ARGV[6], ARGV)
  return over(id, token, 'ended')
end
add(id, 'spared', 1)
wait(id)
return over(id, token, 'retry')
