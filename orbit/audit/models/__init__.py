"""Pure models over facts that several rules ask: the loader, copies of libraries, requirements, settings, claims."""
