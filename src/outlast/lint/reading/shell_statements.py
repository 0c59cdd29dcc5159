"""From the grammar's nodes to statements; recursion is safe here, as the reader has measured the depth before."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import tree_sitter

from outlast.lint.command_line import CommandLine, Word
from outlast.lint.reading.shell_words import Words
from outlast.lint.reading.statements import Form, Heredoc, Redirect, Statement

Node = tree_sitter.Node
_FORMS = {
    "pipeline": Form.PIPELINE,
    "compound_statement": Form.GROUP,
    "do_group": Form.GROUP,
    "else_clause": Form.GROUP,
    "subshell": Form.SUBSHELL,
    "command_substitution": Form.SUBSHELL,
    "process_substitution": Form.SUBSHELL,
    "case_statement": Form.CASE,
    "case_item": Form.GROUP,
}
_TESTS = {"test_command", "unset_command", "arithmetic_expansion"}
_LOOPS = {"while_statement", "for_statement", "c_style_for_statement"}
_SUBSTITUTIONS = {"command_substitution", "process_substitution"}
_SIMPLE = {"command", "declaration_command", "variable_assignment", "variable_assignments", *_TESTS}
_STATEMENTS = {
    *_FORMS, *_LOOPS, *_SIMPLE, "if_statement", "list", "function_definition", "redirected_statement",
    "negated_command", "ERROR",
}  # fmt: skip
_MOST_WORDS = 5_000  # of one command: no person writes more
_NO_WORDS = {"heredoc_start", "heredoc_body", "heredoc_end", "comment"}


@dataclass(frozen=True, slots=True)
class Reading:
    """One text's nodes, bytes and variables."""

    root: Node
    data: bytes
    words: Words

    @classmethod
    def of(cls, root: Node, data: bytes) -> "Reading":
        """Reads the variables first, as words need them."""
        return cls(root, data, Words.of(root, data))

    def statements(self) -> tuple[Statement, ...]:
        """Those of the whole text."""
        return self._body(self.root.children)

    def _body(self, nodes: Iterable[Node]) -> tuple[Statement, ...]:
        """Statements in a row; an `&` behind one puts it in the background."""
        found: list[Statement] = []
        for node in nodes:
            if node.type == "&" and found:
                found[-1] = replace(found[-1], background=True)
            elif node.type in _STATEMENTS:
                found += self._of(node)
        return tuple(found)

    def _of(self, node: Node) -> list[Statement]:
        """A node's statements: mostly one; several where the grammar has joined two lines to one command."""
        if node.type in _SIMPLE:
            return list(self._simple(node))
        special = {
            "ERROR": self._error,
            "redirected_statement": self._redirected,
            "negated_command": self._negated,
            "list": self._list,
            "if_statement": self._if,
            "function_definition": self._function,
            **dict.fromkeys(_LOOPS, self._loop),
        }.get(node.type)
        if special is not None:
            return list(special(node))
        return [self._made(node, _FORMS[node.type], self._body(node.children))]

    def _error(self, node: Node) -> Iterator[Statement]:
        """What the grammar did not understand may hold something that it did."""
        yield from self._body(node.children)

    def _negated(self, node: Node) -> Iterator[Statement]:
        for number, one in enumerate(self._body(node.children)):
            yield replace(one, negated=True) if number == 0 else one

    def _list(self, node: Node) -> Iterator[Statement]:
        form = Form.OR if any(child.type == "||" for child in node.children) else Form.AND
        yield self._made(node, form, self._body(node.children))

    def _function(self, node: Node) -> Iterator[Statement]:
        yield self._made(node, Form.FUNCTION, self._body(node.children), _text(node.child_by_field_name("name")))

    def _if(self, node: Node) -> Iterator[Statement]:
        yield self._made(node, Form.IF, self._branches(node))

    def _made(self, node: Node, form: Form, parts: tuple[Statement, ...], name: str = "") -> Statement:
        row, byte = node.start_point
        column = self.words.places.column(row, byte)
        return Statement(form, row + 1, column, node.end_point.row + 1, parts, name=name)

    def _loop(self, node: Node) -> Iterator[Statement]:
        """A condition, empty for `for`, and a body; `$(...)` in the list of a `for` counts as its condition."""
        before = [child for child in node.children if child.type != "do_group"]
        parts = tuple(self._body([child for child in before if child.type in _STATEMENTS]))
        condition = self._made(node, Form.GROUP, parts + self._substituted(before if not parts else []))
        body = self._body([child for child in node.children if child.type == "do_group"])
        yield self._made(node, Form.LOOP, (condition, *body), _text(node.child_by_field_name("variable")))

    def _branches(self, node: Node) -> tuple[Statement, ...]:
        """Conditions and bodies in turn; the grammar has them in one row, with `then` between."""
        groups: list[list[Node]] = [[]]
        made: list[Statement] = []
        for child in node.children:
            if child.type == "then":
                groups.append([])
            elif child.type == "elif_clause":
                made += self._branches(child)
            elif child.type == "else_clause":
                made += self._of(child)
            else:
                groups[-1].append(child)
        own = [self._made(group[0] if group else node, Form.GROUP, self._body(group)) for group in groups]
        return (*own, *made)

    # --- simple commands ---

    def _simple(self, node: Node) -> Iterator[Statement]:
        if node.type in _TESTS:
            yield self._made(node, Form.TEST, self._substituted([node]))
            return
        if node.type == "variable_assignment":
            yield self._command([node], node)
            return
        for children in self._by_line(node):
            yield self._command(children, node)

    def _by_line(self, node: Node) -> Iterator[list[Node]]:
        """The grammar joins a line of assignments, or one after `|&`, with the next; a bare line break ends one."""
        row: list[Node] = []
        for child in node.children:
            if row and b"\n" in self._gap(row[-1], child):
                yield row
                row = []
            row.append(child)
        if row:
            yield row

    def _gap(self, before: Node, after: Node) -> bytes:
        return self.data[before.end_byte : after.start_byte].replace(b"\\\n", b"")

    def _command(self, children: list[Node], whole: Node) -> Statement:
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        complete, herestring = True, None
        for child in children:
            if len(words) > _MOST_WORDS:
                complete = False
                break
            if child.type == "variable_assignment":
                assignments += self._assigned(child)
            elif child.type == "file_redirect":
                redirects += self._redirect(child)
            elif child.type == "herestring_redirect":
                herestring = next((self.words.word(one) for one in child.named_children), None)
            elif whole.type != "declaration_command" and _is_word(child):
                for word in self.words.words_of(child):
                    complete &= word is not None
                    words += [] if word is None else [word]
                if not words and child.type == "command_name":
                    words.append(self.words.word(child))  # `"$@"`: some program, and its arguments
        line = CommandLine(tuple(words), complete) if words else None
        first, last = children[0], children[-1]
        return replace(
            self._made(first, Form.COMMAND if line else Form.ASSIGNMENT, self._substituted(children)),
            end_line=last.end_point.row + 1,
            command=line,
            assignments=tuple(assignments),
            redirects=tuple(redirects),
            herestring=herestring,
        )

    def _assigned(self, node: Node) -> Iterator[tuple[str, Word]]:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None:
            row, byte = node.end_point
            empty = Word("", row + 1, self.words.places.column(row, byte))
            yield _text(name), empty if value is None else self.words.word(value)

    def _substituted(self, nodes: list[Node]) -> tuple[Statement, ...]:
        """What the words of these nodes run."""
        found: list[Statement] = []
        stack = list(reversed(nodes))
        while stack:
            node = stack.pop()
            if node.type in _SUBSTITUTIONS:
                found += self._of(node)
            else:
                stack.extend(reversed(node.named_children))
        return tuple(found)

    # --- redirections ---

    def _redirected(self, node: Node) -> Iterator[Statement]:
        body = self._body([child for child in node.children if child.type in _STATEMENTS])
        if not body:
            return
        *before, made = body
        yield from before
        for child in node.children:
            if child.type == "file_redirect":
                made = replace(made, redirects=(*made.redirects, *self._redirect(child)))
            elif child.type == "herestring_redirect":
                made = replace(made, herestring=next((self.words.word(one) for one in child.named_children), None))
            elif child.type == "heredoc_redirect":
                made = self._with_heredoc(self._with_dash(made, child), child)
        yield made

    def _redirect(self, node: Node) -> Iterator[Redirect]:
        tokens = [_text(child) for child in node.children if child.type == "file_descriptor" or not child.is_named]
        for child in node.named_children:
            if child.type != "file_descriptor":
                yield Redirect("".join(tokens), self.words.word(child))
                return

    def _with_dash(self, made: Statement, node: Node) -> Statement:
        """The grammar loses a dash that stands before `<<EOF`."""
        before = node.prev_sibling
        gap = self._gap(before, node) if before is not None else b""
        if made.command is None or gap.strip() != b"-":
            return made
        row, byte = node.start_point
        column = self.words.places.column(row, byte) - len(gap) + gap.index(b"-")
        word = Word("-", row + 1, column, "-")
        return replace(made, command=replace(made.command, words=(*made.command.words, word)))

    def _with_heredoc(self, made: Statement, node: Node) -> Statement:
        """The grammar hangs what follows `<<EOF` on its line (words, `| sh`, `|| true`) below the redirection."""
        made = replace(made, heredocs=(*made.heredocs, *self._heredoc(node)))
        operator = ""
        for child in node.children:
            if child.type in ("&&", "||"):
                operator = child.type
            elif child.type == "file_redirect":
                made = replace(made, redirects=(*made.redirects, *self._redirect(child)))
            elif child.type in _STATEMENTS:
                form = Form.PIPELINE if child.type == "pipeline" else Form.OR if operator == "||" else Form.AND
                rest = self._body(child.children) if form is Form.PIPELINE else tuple(self._of(child))
                made = Statement(form, made.line, made.column, node.end_point.row + 1, (made, *rest))
            elif _is_word(child) and made.command is not None:
                words = tuple(word for word in self.words.words_of(child) if word is not None)
                made = replace(made, command=replace(made.command, words=(*made.command.words, *words)))
        return made

    def _heredoc(self, node: Node) -> Iterator[Heredoc]:
        parts = {child.type: child for child in node.children}
        body, end, start = parts.get("heredoc_body"), parts.get("heredoc_end"), parts.get("heredoc_start")
        if body is None or end is None or start is None:
            return
        first = self.data.rfind(b"\n", 0, body.start_byte) + 1  # the grammar skips the first line's tabs
        last = self.data.rfind(b"\n", 0, end.start_byte) + 1
        lines = self.data[first:last].decode(errors="replace").split("\n")
        cut = "<<-" in parts
        kept = [line.lstrip("\t") if cut else line for line in lines]
        yield Heredoc(
            "\n".join(kept),
            body.start_point.row + 1,
            tuple(len(line) - len(rest) for line, rest in zip(lines, kept, strict=True)),
            expands=not _text(start).startswith(("'", '"', "\\")),
        )


def _is_word(node: Node) -> bool:
    """Whether a command's part is one of its words; the grammar has no name for a lone dash."""
    return node.type not in _NO_WORDS if node.is_named else node.type in ("-", "$", "=")


def _text(node: Node | None) -> str:
    return (node.text or b"").decode(errors="replace") if node is not None else ""
