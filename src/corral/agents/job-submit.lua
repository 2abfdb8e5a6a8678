-- Refuses jobs that ask for GPUs that the cluster file does not declare (gres/withheld).
--
-- Installed as: /etc/slurm/job_submit.lua (roles/slurm/compute)
-- Started by: slurmctld, for each job that is submitted or changed
-- Runs as: the user slurm

local FIELDS = { "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task" }

local function asks(job)
  for _, field in ipairs(FIELDS) do
    local text = job[field]
    if text ~= nil and string.find(string.lower(text), "withheld", 1, true) then
      slurm.log_user("gres/withheld: these GPUs are not for jobs")
      return true
    end
  end
  return false
end

function slurm_job_submit(job)
  return asks(job) and slurm.ERROR or slurm.SUCCESS
end

function slurm_job_modify(job)
  return asks(job) and slurm.ERROR or slurm.SUCCESS
end

return slurm.SUCCESS
