"""Commands as hypothesis draws them: few names, so that they meet."""

from hypothesis import strategies as st

from queues.definitions.metadata import commands
from queues.definitions.metadata.commands import Batch, Command
from tests.unit.queues.definitions.steps import (
    bind,
    declare_exchange,
    declare_queue,
    link,
    unbinding,
)

names = st.sampled_from(["a", "b", "c"])
bindings = st.builds(bind, names, names) | st.builds(bind, names, names, st.just(b"k"), z=names)
links = st.builds(link, names, names)
owners = st.sampled_from(["", "", "c1", "c2"])
places = names | st.just("/")


def put_policy(vhost: str, name: str, operator: bool, priority: int) -> Command:
    definition = b'{"max-length":1}'
    return commands.PutPolicy(vhost, name, operator, "^a", "queues", priority, definition)


histories: st.SearchStrategy[Command] = st.one_of(
    st.builds(declare_exchange, names, auto_delete=st.booleans(), durable=st.booleans()),
    st.builds(declare_queue, names, owner=owners, durable=st.booleans()),
    st.builds(declare_queue, names, st.just({"x-expires": 5}), node=st.sampled_from(["n1", "n2"])),
    bindings,
    links,
    st.builds(unbinding, bindings | links),
    st.builds(commands.DeleteQueue, st.just("/"), names),
    st.builds(commands.DeleteExchange, st.just("/"), names, st.booleans()),
    st.builds(commands.DeleteByOwner, owners, st.integers(0, 2)),
    st.builds(commands.DeclareVhost, names),
    st.builds(commands.DeleteVhost, names),
    st.builds(commands.PutUser, names, names, names),
    st.builds(commands.DeleteUser, names),
    st.builds(commands.SetPermissions, names, names | st.just("/"), names, names, names),
    st.builds(commands.DeclareQueue, names, names, exclusive_owner=owners),
    st.builds(commands.DeclareVhost, names, default_queue_type=st.sampled_from(["", "quorum"])),
    st.builds(put_policy, places, names, st.booleans(), st.integers(0, 1)),
    st.builds(commands.DeletePolicy, places, names, st.booleans()),
    st.builds(commands.PutParameter, places | st.just(""), names, names, st.just(b"1")),
    st.builds(commands.DeleteParameter, places | st.just(""), names, names),
    st.builds(commands.SetTopicPermissions, names, places, names, names, names),
    st.builds(commands.ClearTopicPermissions, names, places, names | st.just("")),
    st.builds(lambda first, second: Batch((first, second)), bindings, links),
)
