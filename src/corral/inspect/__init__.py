"""What machines and their cluster report: a table of questions, and the state made of the answers.

Each question is a name, a shell fragment and a parser, and is written once (``machine``,
``services``, ``slurm``, ``storage``). Observers (doctor, proof, status, jobs) name the questions
they need; all questions to a machine travel in one script (``hosts.framing``).
"""
