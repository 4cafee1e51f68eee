"""A graph without a loop around it, such as a model's: by a program, or node by node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from mdf_loop.execute.calls import Calls
from mdf_loop.execute.interpret import InterpretedBody
from mdf_loop.execute.program import RUN, Program
from mdf_loop.execute.programs import Programs, Ready
from mdf_loop.execute.specialised import Specialised
from mdf_loop.execute.tiers.kept_programs import KeptPrograms
from mdf_loop.execute.tiers.paying import AGAIN, account_of
from mdf_loop.ir import Body
from mdf_loop.options import Options, Run
from mdf_loop.step.lower import lower_graph
from mdf_loop.step.records import Region, Type
from mdf_loop.types.fitting import handed_out

T = TypeVar("T")


class Graph(InterpretedBody):
    """A graph ready to run, any number of times."""

    def __init__(self, body: Body) -> None:
        super().__init__(body)
        self._found: tuple[Program, Calls] | None = None
        self._account = account_of(body)
        self._interpreted = 0.0  # seconds that a program of Python would have made less

        def lower(types: Sequence[Type], obey: bool, opens: bool, is_many: bool) -> Region:
            return lower_graph(body, types, obey, opens, self._calls().bound, not is_many, is_many)

        has_loops = any(node.bodies for node in body.nodes)
        self._programs = Programs(lower, self.program.draws, has_loops, not body.typed, KeptPrograms(body))

    def _calls(self) -> Calls:
        """The kernels of its nodes."""
        if self._found is None or self._found[0] is not self.program:
            self._found = self.program, Calls(self.program)
        return self._found[1]

    def again(self, inputs: tuple[Any, ...], run: Run) -> tuple[Any, ...] | None:
        """The outputs by the program that ran last, if it is for such inputs; they may be anything.  Outputs may leave."""
        ready = self._programs.ready
        if ready is None:
            return None
        if not ready.made.size:
            return self._python_again(ready, inputs, run)
        if not self._may_be_compiled(run):
            return None
        found = self._programs.again(ready, inputs, run)
        return found if found is None or ready.made.code.gives_arrays else tuple(handed_out([*found]))

    def _python_again(self, ready: Ready, inputs: tuple[Any, ...], run: Run) -> tuple[Any, ...] | None:
        """The same by a program of Python, as long as nothing else is wanted."""
        if not (run.options.how.plans and self._is_free(run)) or ready.is_wanted != self._account.pays(run.options):
            return None

        def call() -> tuple[Any, ...]:
            with np.errstate(all="ignore"):
                results = [*(self._programs.again(ready, inputs, run) or ())]
            return tuple(handed_out(results))

        return self._account.timed(run.options, call) or None

    def at_once(self, env: list[Any], run: Run) -> Sequence[Any] | None:
        """The outputs by machine code that is there, of a graph that begins with these values."""
        return self._programs.at_once(self._given(env), run) if self._may_be_compiled(run) else None

    def machine_code(self, inputs: Sequence[Any], options: Options) -> Specialised | None:
        """What engine ``jit`` runs for such inputs, called with them; None if there is none."""
        return self._programs.machine_code(inputs, options) if options.max_iterations is None else None

    @staticmethod
    def _is_free(run: Run) -> bool:
        """Whether it is not watched or stopped."""
        return run.options.max_iterations is None and run.is_free

    def _may_be_compiled(self, run: Run) -> bool:
        """The same in an engine that compiles."""
        how = run.options.how
        return (how.compiles or how.compiles_what_pays) and self._is_free(run)

    def finish(self, env: list[Any]) -> tuple[Any, ...]:
        """Run every node once; returns the body's outputs."""
        run: Run = env[RUN]
        if not run.options.how.plans:
            return super().finish(env)
        found = self._by_program(env, run)
        return super().finish(env) if found is None else found

    def timed(self, options: Options, call: Callable[[], T]) -> T:
        """What a call gives, which counts when it is asked whether machine code pays."""
        return self._account.timed(options, call)

    def _by_program(self, env: list[Any], run: Run) -> tuple[Any, ...] | None:
        """The results that a program gives, if there is one.  What it had computed before Ctrl-C is not known."""
        if run.options.max_iterations is not None or not run.is_free:
            self._are_parts(False)
            return None
        account, options = self._account, run.options
        written = sum(loop.account.latest for loop in self.program.loops if loop.is_written)
        self._interpreted += (latest := max(account.latest - written, 0.0))
        usual = min(latest, self._interpreted / 2)  # a first call takes about twice as long as others
        pays, programs = account.is_worth_writing(options, max(self._interpreted, AGAIN * usual)), self._programs

        def pays_writing() -> bool:
            """Not while machine code is being made, for which it will hardly be run before that is there."""
            return pays and not programs.is_waiting

        given = self._given(env)
        is_compiled = (account.looks_on_disk(options) and programs.is_kept(given, options)) or account.pays(options)
        found = programs.run(given, run, pays_writing, is_compiled, self._fits_python)
        self._are_parts(found is not None or programs.is_waiting or not (pays or programs.why))
        return found

    def _fits_python(self) -> bool:
        """Whether loops may be opened in a program of Python: none has programs for blocks, which are as good."""
        return not any(loop.is_written and loop.last_program is None for loop in self.program.loops)

    def _are_parts(self, are_parts: bool) -> None:
        """Say whether its loops become machine code together with it, or each when that pays for it."""
        for loop in self.program.loops:
            loop.account.is_part, loop.account.is_waiting = are_parts, are_parts and self._programs.is_waiting

    def _given(self, env: list[Any]) -> list[Any]:
        """What it is given, of its values."""
        return [env[slot] for slot in (*self.program.inputs, *self.program.captures)]
