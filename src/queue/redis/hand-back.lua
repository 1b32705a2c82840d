--[[
  Hands back a job whose worker leaves before the run has ended. The job waits for another worker, and the run does
  not count towards the limit on runs.

    KEYS[1]  prefix of the queue's keys; see ledger.lua
    ARGV[1]-[3] the `limits` of `finish` in ledger.lua
    ARGV[4]  id
    ARGV[5]  token
    ARGV[6]  error of a job whose client has received a part of the answer

  Returns 'retry', 'ended', or the result of `stale` when the run does not count.
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
