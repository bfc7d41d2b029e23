"""Parts that the workbench's pages share: dialogs, tables, marks, errors."""
