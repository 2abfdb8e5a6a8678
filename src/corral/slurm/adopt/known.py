"""The keys of Slurm's files: which release knows which. Data.

Generated: ``.ci/slurm_keys.py GIT_DIR`` reads the options tables (``s_p_options_t``) of Slurm's own
source at the last tag of each release, 14.03 to 26.05. A suffix marks what is
special about a key: ``*`` may stand more than once, ``?`` is yes or no, ``#`` is a number.
"""

from __future__ import annotations

from typing import Final

FIRST: Final = "14.03"
"""The oldest release that was read."""
LAST: Final = "26.05"
"""The newest release that was read."""

# file, first key of its line, first release with it ("": all that were read), first release
# without it ("": none), first release that reads it and ignores it with an error ("": none), keys
KNOWN: Final = (
    (
        "slurm.conf",
        "",
        "",
        "",
        "",
        (
            "AccountingStorageEnforce AccountingStorageHost AccountingStorageBackupHost "
            "AccountingStoragePass AccountingStoragePort# AccountingStorageType "
            "AccountingStoreJobComment? AcctGatherEnergyType AcctGatherNodeFreq# "
            "AcctGatherProfileType AcctGatherInfinibandType AcctGatherFilesystemType AuthInfo "
            "AuthType BackupAddr BackupController BatchStartTimeout# ClusterName CompleteWait# "
            "ControlAddr ControlMachine CryptoType DebugFlags DefMemPerCPU# DefMemPerNode# "
            "DisableRootJobs? EnforcePartLimits Epilog* EpilogMsgTime# EpilogSlurmctld* "
            "FairShareDampeningFactor# FastSchedule# FirstJobId# GresTypes GroupUpdateForce# "
            "GroupUpdateTime# HealthCheckInterval# HealthCheckNodeState HealthCheckProgram "
            "InactiveLimit# JobAcctGatherType JobAcctGatherFrequency JobAcctGatherParams "
            "JobCompHost JobCompLoc JobCompPass JobCompPort# JobCompType JobContainerType "
            "JobCompUser JobFileAppend# JobRequeue# JobSubmitPlugins KeepAliveTime# "
            "KillOnBadExit# KillWait# LaunchType Licenses LogTimeFormat MailProg MaxArraySize# "
            "MaxJobCount# MaxJobId# MaxMemPerCPU# MaxMemPerNode# MaxStepCount# MaxTasksPerNode# "
            "MessageTimeout# MinJobAge# MpiDefault MpiParams OverTimeLimit# PluginDir "
            "PlugStackConfig PreemptMode PreemptType PriorityDecayHalfLife PriorityCalcPeriod "
            "PriorityFavorSmall? PriorityMaxAge PriorityUsageResetPeriod PriorityType "
            "PriorityFlags PriorityWeightAge# PriorityWeightFairshare# PriorityWeightJobSize# "
            "PriorityWeightPartition# PriorityWeightQOS# PrivateData ProctrackType Prolog* "
            "PrologSlurmctld* PrologFlags PropagatePrioProcess# PropagateResourceLimitsExcept "
            "PropagateResourceLimits RebootProgram ReconfigFlags ResumeProgram ResumeRate# "
            "ResumeTimeout# ResvEpilog ResvOverRun# ResvProlog ReturnToService# "
            "SallocDefaultCommand SchedulerParameters SchedulerTimeSlice# SchedulerType "
            "SelectType SelectTypeParameters SlurmUser SlurmdUser SlurmctldDebug "
            "SlurmctldLogFile SlurmctldPidFile SlurmctldPort SlurmctldTimeout# SlurmdDebug "
            "SlurmdLogFile SlurmdPidFile SlurmdPort# SlurmdSpoolDir SlurmdTimeout# "
            "SlurmSchedLogFile SlurmSchedLogLevel# SrunEpilog SrunProlog StateSaveLocation "
            "SuspendExcNodes SuspendExcParts SuspendProgram SuspendRate# SuspendTime "
            "SuspendTimeout# SwitchType TaskEpilog TaskProlog TaskPlugin TaskPluginParam TmpFS "
            "TopologyPlugin TrackWCKey? TreeWidth# UnkillableStepProgram UnkillableStepTimeout# "
            "UsePAM? VSizeFactor# WaitTime# NodeName* PartitionName* DownNodes* "
        ),
    ),
    ("slurm.conf", "", "", "25.11", "", ("AccountingStorageLoc ")),
    ("slurm.conf", "", "", "", "25.11", ("AccountingStorageUser ")),
    (
        "slurm.conf",
        "",
        "",
        "21.08",
        "",
        (
            "CheckpointType CacheGroups# DefaultStorageHost DefaultStorageLoc "
            "DefaultStoragePass DefaultStoragePort# DefaultStorageType DefaultStorageUser "
            "JobCheckpointDir SchedulerPort# SchedulerRootFilter# "
        ),
    ),
    ("slurm.conf", "", "", "", "24.05", ("CoreSpecPlugin ")),
    ("slurm.conf", "", "", "15.08", "", ("DynAllocPort# ")),
    (
        "slurm.conf",
        "",
        "",
        "",
        "23.11",
        ("ExtSensorsType ExtSensorsFreq# JobCredentialPrivateKey JobCredentialPublicCertificate "),
    ),
    ("slurm.conf", "", "", "", "25.05", ("GetEnvTimeout# ")),
    ("slurm.conf", "", "", "24.05", "14.03", ("SchedulerAuth ")),
    ("slurm.conf", "", "", "23.02", "", ("SlurmctldPlugstack ")),
    ("slurm.conf", "", "", "17.11", "", ("SlurmdPlugstack ")),
    ("slurm.conf", "", "", "25.05", "", ("FrontendName* ")),
    (
        "slurm.conf",
        "",
        "14.11",
        "",
        "",
        (
            "AllowSpecResourcesUsage? CpuFreqDef PriorityParameters RequeueExit RequeueExitHold "
            "RoutePlugin SrunPortRange "
        ),
    ),
    ("slurm.conf", "", "14.11", "20.11", "", ("ChosLoc Layouts ")),
    ("slurm.conf", "", "14.11", "21.08", "", ("MemLimitEnforce ")),
    (
        "slurm.conf",
        "",
        "15.08",
        "",
        "",
        (
            "AccountingStorageTRES BurstBufferParameters BurstBufferType CpuFreqGovernors "
            "EioTimeout# LaunchParameters PriorityWeightTRES PrologEpilogTimeout# TopologyParam "
        ),
    ),
    ("slurm.conf", "", "15.08", "20.11", "", ("MsgAggregationParams ")),
    ("slurm.conf", "", "15.08", "", "24.05", ("PowerParameters PowerPlugin ")),
    (
        "slurm.conf",
        "",
        "16.05",
        "",
        "",
        ("MCSParameters MCSPlugin NodeFeaturesPlugins TCPTimeout# "),
    ),
    ("slurm.conf", "", "17.02", "", "", ("MailDomain SbcastParameters ")),
    (
        "slurm.conf",
        "",
        "17.11",
        "",
        "",
        ("AcctGatherInterconnectType FederationParameters SlurmctldSyslogDebug SlurmdSyslogDebug "),
    ),
    (
        "slurm.conf",
        "",
        "18.08",
        "",
        "",
        (
            "CommunicationParameters DefCPUPerGPU# DefMemPerGPU# ResumeFailProgram "
            "SlurmctldAddr SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg SlurmctldParameters "
            "SlurmdParameters X11Parameters SlurmctldHost* "
        ),
    ),
    (
        "slurm.conf",
        "",
        "19.05",
        "",
        "",
        (
            "AuthAltTypes CliFilterPlugins CredType GpuFreqDef PreemptExemptTime "
            "PrioritySiteFactorParameters PrioritySiteFactorPlugin PriorityWeightAssoc# "
        ),
    ),
    (
        "slurm.conf",
        "",
        "20.02",
        "",
        "",
        (
            "AccountingStorageExternalHost DependencyParameters JobCompParams MaxDBDMsgs# "
            "PrEpParameters PrEpPlugins NodeSet* "
        ),
    ),
    (
        "slurm.conf",
        "",
        "20.11",
        "",
        "",
        ("AccountingStorageParameters AuthAltParameters InteractiveStepOptions ScronParameters "),
    ),
    (
        "slurm.conf",
        "",
        "21.08",
        "",
        "",
        ("AccountingStoreFlags BcastExclude BcastParameters SwitchParameters "),
    ),
    ("slurm.conf", "", "22.05", "", "", ("MaxNodeCount# ")),
    ("slurm.conf", "", "23.02", "", "", ("MaxBatchRequeue# PreemptParameters SuspendExcStates ")),
    ("slurm.conf", "", "24.05", "", "", ("HashPlugin TLSParameters TLSType ")),
    ("slurm.conf", "", "24.11", "", "", ("CertmgrType CertmgrParameters DataParserParameters ")),
    (
        "slurm.conf",
        "",
        "25.05",
        "",
        "",
        ("CertgenType CertgenParameters EpilogTimeout# PrologTimeout# "),
    ),
    (
        "slurm.conf",
        "",
        "25.11",
        "",
        "",
        (
            "CliFilterParameters HttpParserType JobCompPassScript MetricsType NamespaceType "
            "UrlParserType "
        ),
    ),
    (
        "slurm.conf",
        "",
        "26.05",
        "",
        "",
        (
            "HealthCheckTimeout# LicenseParameters MetricsAuthUsers MetricsParameters "
            "SlurmctldHttpAuthParameters SlurmdHttpAuthParameters PowerAction* "
        ),
    ),
    (
        "slurm.conf",
        "NodeName",
        "",
        "",
        "",
        (
            "Boards# CoresPerSocket# CPUs# Feature Gres NodeAddr NodeHostname Port Procs# "
            "RealMemory# Reason Sockets# SocketsPerBoard# State ThreadsPerCore# TmpDisk# "
            "Weight# "
        ),
    ),
    ("slurm.conf", "NodeName", "14.11", "", "", ("CoreSpecCount# CPUSpecList MemSpecLimit# ")),
    ("slurm.conf", "NodeName", "16.05", "", "", ("Features ")),
    ("slurm.conf", "NodeName", "17.02", "", "", ("TRESWeights ")),
    ("slurm.conf", "NodeName", "18.08", "", "", ("CpuBind ")),
    ("slurm.conf", "NodeName", "20.02", "", "", ("BcastAddr ")),
    ("slurm.conf", "NodeName", "24.05", "", "", ("RestrictedCoresPerGPU# ")),
    ("slurm.conf", "NodeName", "25.05", "", "", ("Topology ")),
    ("slurm.conf", "NodeName", "25.11", "", "", ("GresConf Parameters ")),
    ("slurm.conf", "NodeName", "26.05", "", "", ("SuspendTime ")),
    (
        "slurm.conf",
        "PartitionName",
        "",
        "",
        "",
        (
            "AllocNodes AllowAccounts AllowGroups AllowQos Alternate DefMemPerCPU# "
            "DefMemPerNode# Default? DefaultTime DenyAccounts DenyQos DisableRootJobs? "
            "GraceTime# Hidden? LLN? MaxCPUsPerNode# MaxMemPerCPU# MaxMemPerNode# MaxTime "
            "MaxNodes# MinNodes# Nodes PreemptMode Priority# RootOnly? ReqResv? "
            "SelectTypeParameters Shared State "
        ),
    ),
    ("slurm.conf", "PartitionName", "15.08", "", "", ("TRESBillingWeights ExclusiveUser? QOS ")),
    (
        "slurm.conf",
        "PartitionName",
        "16.05",
        "",
        "",
        ("OverSubscribe PriorityJobFactor# PriorityTier# "),
    ),
    ("slurm.conf", "PartitionName", "17.02", "", "", ("OverTimeLimit ")),
    ("slurm.conf", "PartitionName", "18.08", "", "", ("CpuBind DefCPUPerGPU# DefMemPerGPU# ")),
    (
        "slurm.conf",
        "PartitionName",
        "21.08",
        "",
        "",
        ("ResumeTimeout# SuspendTime SuspendTimeout# "),
    ),
    ("slurm.conf", "PartitionName", "23.02", "", "", ("MaxCPUsPerSocket# PowerDownOnIdle? ")),
    ("slurm.conf", "PartitionName", "24.05", "", "", ("ExclusiveTopo? ")),
    ("slurm.conf", "PartitionName", "25.05", "", "", ("Topology ")),
    ("slurm.conf", "PartitionName", "26.05", "", "", ("Exclusive ")),
    ("slurm.conf", "DownNodes", "", "", "", ("Reason State ")),
    ("slurm.conf", "NodeSet", "20.02", "", "", ("Feature Nodes ")),
    (
        "slurm.conf",
        "FrontendName",
        "",
        "25.05",
        "",
        ("AllowGroups AllowUsers DenyGroups DenyUsers FrontendAddr Port# Reason State "),
    ),
    ("gres.conf", "", "", "", "", ("Name* NodeName* ")),
    ("gres.conf", "", "19.05", "", "", ("AutoDetect ")),
    ("gres.conf", "Name", "", "", "", ("Count CPUs File Name ")),
    ("gres.conf", "Name", "14.11", "", "", ("Type ")),
    ("gres.conf", "Name", "17.11", "", "", ("Cores ")),
    ("gres.conf", "Name", "18.08", "", "", ("Link Links ")),
    ("gres.conf", "Name", "19.05", "", "", ("Files ")),
    ("gres.conf", "Name", "20.02", "", "", ("Flags ")),
    ("gres.conf", "Name", "20.11", "", "", ("AutoDetect MultipleFiles ")),
    ("cgroup.conf", "", "", "", "23.11", ("CgroupAutomount? ")),
    (
        "cgroup.conf",
        "",
        "",
        "",
        "",
        (
            "CgroupMountpoint ConstrainCores? ConstrainRAMSpace? AllowedRAMSpace MaxRAMPercent "
            "MinRAMSpace# ConstrainSwapSpace? AllowedSwapSpace MaxSwapPercent "
            "MemoryLimitEnforcement? MemoryLimitThreshold ConstrainDevices? AllowedDevicesFile "
        ),
    ),
    ("cgroup.conf", "", "", "17.11", "", ("CgroupSubsystems ")),
    ("cgroup.conf", "", "", "25.11", "", ("CgroupReleaseAgentDir ")),
    ("cgroup.conf", "", "", "22.05", "", ("TaskAffinity? ")),
    (
        "cgroup.conf",
        "",
        "17.02",
        "23.11",
        "",
        ("ConstrainKmemSpace? AllowedKmemSpace MaxKmemPercent MinKmemSpace# "),
    ),
    ("cgroup.conf", "", "17.11", "", "", ("MemorySwappiness# ")),
    ("cgroup.conf", "", "21.08", "", "", ("CgroupPlugin ")),
    ("cgroup.conf", "", "22.05", "", "", ("IgnoreSystemd? IgnoreSystemdOnFailure? ")),
    ("cgroup.conf", "", "23.02", "23.11", "", ("RootOwnedCgroups? ")),
    ("cgroup.conf", "", "23.02", "", "", ("EnableControllers? ")),
    ("cgroup.conf", "", "23.11", "", "", ("SignalChildrenProcesses? ")),
    ("cgroup.conf", "", "24.05", "", "", ("SystemdTimeout# ")),
    ("cgroup.conf", "", "25.05", "", "", ("EnableExtraControllers ")),
    ("cgroup.conf", "", "25.11", "", "", ("CgroupSlice ")),
    ("cgroup.conf", "", "26.05", "", "", ("CgroupJobIdPaths? ")),
    (
        "slurmdbd.conf",
        "",
        "",
        "",
        "",
        (
            "ArchiveDir ArchiveEvents? ArchiveJobs? ArchiveResvs? ArchiveScript ArchiveSteps? "
            "ArchiveSuspend? AuthInfo AuthType DbdAddr DbdBackupHost DbdHost DbdPort# "
            "DebugLevel DefaultQOS JobPurge# LogFile LogTimeFormat MessageTimeout# PidFile "
            "PluginDir PrivateData PurgeEventAfter PurgeJobAfter PurgeResvAfter PurgeStepAfter "
            "PurgeSuspendAfter PurgeEventMonths# PurgeJobMonths# PurgeStepMonths# "
            "PurgeSuspendMonths# SlurmUser StepPurge# StorageBackupHost StorageHost StorageLoc "
            "StoragePass StoragePort# StorageType StorageUser TrackWCKey? TrackSlurmctldDown? "
        ),
    ),
    ("slurmdbd.conf", "", "14.11", "", "", ("CommitDelay# DebugFlags ")),
    ("slurmdbd.conf", "", "16.05", "", "", ("TCPTimeout# ")),
    (
        "slurmdbd.conf",
        "",
        "17.02",
        "",
        "",
        (
            "ArchiveTXN? ArchiveUsage? PurgeTXNAfter PurgeUsageAfter PurgeTXNMonths# "
            "PurgeUsageMonths# "
        ),
    ),
    ("slurmdbd.conf", "", "17.11", "", "", ("DebugLevelSyslog MaxQueryTimeRange ")),
    ("slurmdbd.conf", "", "18.08", "", "", ("Parameters ")),
    ("slurmdbd.conf", "", "19.05", "", "", ("AuthAltTypes ")),
    (
        "slurmdbd.conf",
        "",
        "20.11",
        "",
        "",
        ("AuthAltParameters CommunicationParameters StorageParameters "),
    ),
    ("slurmdbd.conf", "", "22.05", "", "", ("AllowNoDefAcct? ")),
    ("slurmdbd.conf", "", "23.02", "", "", ("AllResourcesAbsolute? ")),
    ("slurmdbd.conf", "", "24.05", "", "", ("DisableCoordDBD? HashPlugin TLSParameters TLSType ")),
    (
        "slurmdbd.conf",
        "",
        "25.11",
        "",
        "",
        ("DisableArchiveCommands? MaxPurgeLimit# StoragePassScript "),
    ),
    (
        "slurmdbd.conf",
        "",
        "26.05",
        "",
        "",
        ("ArchiveJobScript? ArchiveJobEnv? DisableRollups? PurgeJobScriptAfter PurgeJobEnvAfter "),
    ),
    ("topology.conf", "SwitchName", "", "", "", ("LinkSpeed# Nodes Switches ")),
    ("topology.conf", "", "24.05", "", "", ("BlockName* BlockSizes ")),
    ("topology.conf", "BlockName", "24.05", "", "", ("Nodes ")),
)
