"""`python -m knockout.schema` prints docs/schema.json."""

from knockout.schema import schema_text

if __name__ == "__main__":
    print(schema_text(), end="")
