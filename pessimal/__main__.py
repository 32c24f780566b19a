"""``python -m pessimal``."""

from pessimal.cli import main

if __name__ == "__main__":
    main()
