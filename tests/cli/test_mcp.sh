#!/usr/bin/env bash
# not under asan: each call starts the program again, and other tests cover that code.
# Sends messages of an agent to `simsearch mcp`. Each gets an answer or an error code, and none stops
# the server.
# shellcheck source-path=SCRIPTDIR
set -u
. "$(dirname "$0")/../program.sh"
cd "$work" || exit 1

cat >messages <<'EOF'
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":"two","method":"ping"}
{"jsonrpc":"2.0","id":3,"method":"tools/list"}
{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"simulate","arguments":{"model":"gpt3-1.3b","gpus":8,"layout":"tp2 mb1 sp"}}}
{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"list","arguments":{"files":["stacks"],"quiet":true}}}
{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"search","arguments":{"modle":"tiny"}}}
{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"run"}}
{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"search","arguments":{"files":[1]}}}
{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"search","arguments":[]}}
{"jsonrpc":"2.0","id":10,"method":"resources/list"}
{"jsonrpc":"1.0","id":11,"method":"ping"}

{broken
[1]
"text"
{"jsonrpc":"2.0","id":12,"id":12,"method":"ping"}
{"jsonrpc":"2.0","id":13,"method":"tools/call","params":{"name":"simulate","arguments":{"model":"$(reboot)\u0000"}}}
{"jsonrpc":"2.0","id":14,"method":"tools/call","params":{"name":"tune","arguments":{"files":["missing.sh"],"gpus":16}}}
{"jsonrpc":"2.0","id":15,"method":"tools/call","params":{"name":"simulate","arguments":{"model":"175b","gpus":8,"layout":"tp16"}}}
EOF
head -c 100000 /dev/zero | tr '\0' '[' >>messages
printf '\n\xff\xfe\n{"jsonrpc":"2.0","id":16,"method":"ping"}' >>messages
"$SIMSEARCH" mcp <messages >"$work/out" 2>"$work/err" || fail "exit $?"
[ -s "$work/err" ] && fail "unexpected output on stderr: $(cat "$work/err")"

python3 - "$work/out" <<'PY' || fail "answers are not as expected"
import json, sys
answers = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
assert all(a["jsonrpc"] == "2.0" for a in answers)
by_id = {a["id"]: a for a in answers if a["id"] is not None}
code = lambda i: by_id[i]["error"]["code"]
result = lambda i: by_id[i]["result"]
assert result(1)["protocolVersion"] == "2025-03-26" and "tools" in result(1)["capabilities"]
assert result("two") == {} and result(16) == {}
tools = {t["name"]: t for t in result(3)["tools"]}
assert sorted(tools) == ["explain", "export", "import", "list", "search", "simulate", "tune"]
schema = tools["search"]["inputSchema"]["properties"]
assert schema["gpus"]["type"] == "integer" and schema["model"]["type"] == "string"
assert schema["uneven"]["type"] == "boolean" and "layout" not in schema and "json" not in schema
assert not result(4)["isError"] and result(4)["structuredContent"]["step_s"] > 0
assert json.loads(result(4)["content"][0]["text"]) == result(4)["structuredContent"]
assert isinstance(json.loads(result(5)["content"][0]["text"]), list) and not result(5)["isError"]
assert result(6)["isError"] and "did you mean --model" in result(6)["content"][0]["text"]
assert [code(i) for i in (7, 8, 9, 10, 11)] == [-32602] * 3 + [-32601, -32600]
assert result(14)["isError"] and result(14)["_meta"]["exit_code"] == 4
assert result(15)["_meta"]["exit_code"] == 3 and not result(15)["isError"]
refused = [a["error"]["code"] for a in answers if a["id"] is None]
assert refused == [-32700, -32600] + [-32700] * 5, refused
PY
exit $failed
