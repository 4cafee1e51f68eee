"""The records that every reader ends in, and what a well-formed body is."""

from mdf_loop.ir.records import Body as Body
from mdf_loop.ir.records import Carried as Carried
from mdf_loop.ir.records import Collected as Collected
from mdf_loop.ir.records import Dim as Dim
from mdf_loop.ir.records import Loop as Loop
from mdf_loop.ir.records import Node as Node
from mdf_loop.ir.records import Scanned as Scanned
from mdf_loop.ir.records import State as State
from mdf_loop.ir.records import ValueType as ValueType
from mdf_loop.ir.records import entity as entity
from mdf_loop.ir.records import record as record
